"""Reading an answer's stream: when its pieces came, and whether it came to its end.

Only as much of SSE (https://html.spec.whatwg.org/multipage/server-sent-events.html) as a chat stream uses:
events end with an empty line, `data:` holds JSON or `[DONE]`.
"""

from __future__ import annotations

import re
from typing import Any, Final

import orjson

from control_plane.tools.load.verdicts import CUT, Verdict, failed, used

_BOUNDARY: Final = re.compile(rb"\r\n\r\n|\n\n|\r\r")


class StreamReader:
    """Takes the bytes of one stream as they come.

    `first` is the moment of the first piece that holds text or a tool call, None before it; `gaps` are the
    seconds between that piece and each one behind it.
    """

    def __init__(self) -> None:
        self.first: float | None = None
        self.gaps: list[float] = []
        self._last = 0.0
        self._rest = b""
        self._done = False
        self._finished = False
        self._broken = False
        self._tokens = (0, 0)

    def feed(self, data: bytes, now: float) -> None:
        """Take `data`, which came at `now` (seconds)."""
        *events, self._rest = _BOUNDARY.split(self._rest + data)
        for event in events:
            self._event(event, now)

    def verdict(self) -> Verdict:
        """Return the verdict once the stream has ended."""
        if self._broken or not (self._done or self._finished):
            return failed(CUT)
        return Verdict("200", True, *self._tokens)

    def _event(self, event: bytes, now: float) -> None:
        data = b"".join(line[5:].strip() for line in event.splitlines() if line.startswith(b"data:"))
        if not data:
            return
        if data == b"[DONE]":
            self._done = True
            return
        try:
            document: Any = orjson.loads(data)
        except orjson.JSONDecodeError:
            self._broken = True
            return
        if not isinstance(document, dict) or "error" in document:
            self._broken = True
            return
        if document.get("usage"):
            self._tokens = used(document["usage"])
        choices = document.get("choices")
        for choice in choices if isinstance(choices, list) else ():
            if isinstance(choice, dict):
                self._choice(choice, now)

    def _choice(self, choice: dict[str, Any], now: float) -> None:
        self._finished = self._finished or choice.get("finish_reason") is not None
        delta = choice.get("delta")
        delta = delta if isinstance(delta, dict) else {}
        if not (delta.get("content") or delta.get("tool_calls") or choice.get("text")):
            return
        if self.first is None:
            self.first = now
        else:
            self.gaps.append(now - self._last)
        self._last = now
