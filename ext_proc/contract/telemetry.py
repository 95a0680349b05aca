"""What the processor tells the agent about an exchange, through Envoy's dynamic metadata and access log.

The processor writes a struct under `NAMESPACE`; Envoy copies it into the access-log line that it sends to the
agent; the agent counts. So each request is counted once, even when the processor died under it. Envoy writes
the response headers that say what became of a request from it, too.

Each field that Envoy looks up costs it about a microsecond. So what only the agent reads is one text, `CALL`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

NAMESPACE: Final = "outrigger"

MODEL: Final = "model"  # the Model's name; absent when no Model is configured by that name
SHOWN_MODEL: Final = "shown_model"  # what x-outrigger-model says: MODEL, or the name that was asked for
VERSION: Final = "version"
RELEASE: Final = "release"  # the Release that chose the version; absent without one
ASSIGNED: Final = "assigned"  # with a Release: the version that it chose, whoever answered in the end
CLAMPED: Final = "clamped"  # the request's parameters that a Policy changed; absent when it changed none
BACKEND: Final = "backend"  # where it was sent first
KEY: Final = "key"  # a digest of the caller's own key, of calls to a Backend that has none; else absent
ASKS_USAGE: Final = "asks_usage"  # true when we, not the caller, ask for a stream's usage; else absent
OPERATION: Final = "operation"  # chat | text_completion | embeddings (OTel gen_ai.operation.name)
CACHE: Final = "cache"  # hit | miss | bypass | coalesced
TIER: Final = "tier"  # the Tier's name; absent without one
STREAM: Final = "stream"  # true when the caller asked for a stream
INPUT_TOKENS: Final = "input_tokens"
OUTPUT_TOKENS: Final = "output_tokens"
FILTERED: Final = "filtered"  # 1 for an answer that a filter cut short or the model refused, if it was read

CALL: Final = "call"  # a `Call`
SEEN_BY_ENVOY: Final = frozenset((SHOWN_MODEL, VERSION, CACHE, CLAMPED, KEY, ASKS_USAGE))
"""What Envoy itself writes into headers or decides on."""
# No configured name has it.
_SEPARATOR: Final = "\x1e"


class Call(NamedTuple):
    """What the agent is told of a call, by the names above; a text is empty where there is nothing."""

    model: str = ""
    version: str = ""
    release: str = ""
    assigned: str = ""
    backend: str = ""
    operation: str = ""
    cache: str = ""
    tier: str = ""
    stream: str = ""


def pack(told: Iterable[tuple[str, str | bool | float]]) -> str:
    """Return the text of a `Call`; of a field that comes twice the last one counts, others are left out."""
    fields = {name: str(value) for name, value in told if name in Call._fields}
    return _SEPARATOR.join(Call(**fields))


def unpack(text: str) -> Call:
    """Return the call of a text; an empty one if it is none."""
    fields = text.split(_SEPARATOR)
    return Call._make(fields) if len(fields) == len(Call._fields) else Call()
