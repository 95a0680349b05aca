"""Server-sent events in bytes: an incremental parser and an encoder (pure).

Follows the WHATWG HTML standard, section 9.2.6 (https://html.spec.whatwg.org/multipage/server-sent-events.html),
without decoding: a character cut between two chunks is never looked at.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

DONE: Final = b"[DONE]"
MAX_EVENT_BYTES: Final = 4 * 1024 * 1024
_BOM: Final = b"\xef\xbb\xbf"


def is_done(data: bytes) -> bool:
    """Say whether an event's data is the end mark; some providers have a blank or more behind it."""
    return data.startswith(DONE)


class EventTooLarge(ValueError):
    """One event is larger than the parser was allowed to hold."""


@dataclass(frozen=True, slots=True)
class Event:
    """One event. `event` is b"" for the default type; `id` is the last one of the stream so far."""

    data: bytes
    event: bytes = b""
    id: bytes = b""
    retry_ms: int | None = None


class EventParser:
    """Cuts a byte stream into events, whatever the chunks.

    Holds at most `max_event_bytes` of one unfinished event. An event that the stream's end cuts off is
    dropped, as the standard asks.
    """

    __slots__ = (
        "_data",
        "_event",
        "_id",
        "_max",
        "_retry_ms",
        "_skip_lf",
        "_start",
        "_tail",
    )

    def __init__(self, max_event_bytes: int = MAX_EVENT_BYTES) -> None:
        self._max = max_event_bytes
        self._tail = bytearray()  # the start of a line whose end has not come
        self._data = bytearray()  # the values of the data lines, each with a LF
        self._event = b""
        self._id = b""
        self._retry_ms: int | None = None
        self._start = True  # no byte but a part of a byte order mark has come
        self._skip_lf = False  # the last chunk ended in CR: a LF that comes next belongs to it

    @property
    def unfinished(self) -> bool:
        """Whether the stream, if it ended now, would cut an event off."""
        return bool(self._tail or self._data)

    def feed(self, chunk: bytes) -> list[Event]:
        """Return the events that `chunk` completes.

        Raises:
            EventTooLarge: the parser cannot go on.
        """
        if self._start:
            chunk = bytes(self._tail) + chunk
            if len(chunk) < len(_BOM) and _BOM.startswith(chunk):
                self._tail[:] = chunk
                return []
            self._start = False
            self._tail.clear()
            chunk = chunk.removeprefix(_BOM)
        if self._skip_lf and chunk:
            chunk = chunk.removeprefix(b"\n")
            self._skip_lf = False
        if not chunk:
            return []
        self._skip_lf = chunk.endswith(b"\r")
        lines = chunk.splitlines()
        rest = b"" if chunk.endswith((b"\n", b"\r")) else lines.pop()
        events: list[Event] = []
        for line in lines:
            whole = line
            if self._tail:
                whole = bytes(self._tail) + line
                self._tail.clear()
            if whole:
                self._field(whole)
            else:
                self._dispatch(events)
        self._tail += rest
        self._check_size()
        return events

    def _check_size(self) -> None:
        if len(self._tail) + len(self._data) > self._max:
            raise EventTooLarge(f"an event holds more than {self._max} bytes")

    def _field(self, line: bytes) -> None:
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            self._data += value
            self._data += b"\n"
            self._check_size()
        elif name == b"event":
            self._event = value
        elif name == b"id":
            if b"\0" not in value:
                self._id = value
        elif name == b"retry" and value.isdigit() and len(value) <= 18:
            self._retry_ms = int(value)

    def _dispatch(self, events: list[Event]) -> None:
        if self._data:
            events.append(Event(bytes(self._data[:-1]), self._event, self._id, self._retry_ms))
            self._data.clear()
        self._event = b""
        self._retry_ms = None


def encode_event(
    data: bytes, *, event: bytes = b"", id: bytes | None = None, retry_ms: int | None = None
) -> bytes:
    """Return one event as bytes. Line ends in `data` (LF, CRLF, CR) begin a new data line each."""
    lines = []
    if event:
        lines.append(b"event: " + event)
    if id is not None:
        lines.append(b"id: " + id)
    if retry_ms is not None:
        lines.append(b"retry: %d" % retry_ms)
    pieces = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
    lines.extend(b"data: " + piece for piece in pieces)
    return b"\n".join(lines) + b"\n\n"
