"""The simulated provider: an OpenAI-compatible server that behaves like a real one, without a bill.

It answers chat, completions, embeddings and models, as JSON and as SSE, over HTTP/1.1 and HTTP/2, and takes
the time, refuses the load and breaks in the ways it is told to. It is a tool for users who try policies, the
upstream of our benchmark and the other end of our tests. It knows nothing of the mesh.

Words used here:

- *call*: one parsed API request (`calls`), before anything is decided about it.
- *completion*: the text or tool call composed for one choice (`compose`); it depends on the request and the
  seed alone, so the same request has the same answer, as JSON and as a stream.
- *conversation*: one list of messages; with `conversations` on, one call may carry several.
- *behaviour*: a scripted answer for some of the next requests (`script`), played as written (`playback`).
- *instance*: what a worker slot runs on; it is cold after a time without work (`slots`).
- *observation*: what the provider saw (`observations`), read at `GET /_provider/stats`.

In process: `async with running_provider(ProviderSettings()) as provider: provider.url`.
"""

from control_plane.tools.provider.running import Provider, running_provider
from control_plane.tools.provider.script import Behaviour
from control_plane.tools.provider.settings import ProviderSettings

__all__ = ["Behaviour", "Provider", "ProviderSettings", "running_provider"]
