"""A stream as it passes: recorded, and with the usage taken out that only we asked for (pure).

What cannot be recorded passes on all the same; it is then not kept.
"""

from __future__ import annotations

import re
from typing import Any, Final

from ext_proc.openai.chunks import ChunkJoiner
from ext_proc.openai.documents import encode
from ext_proc.openai.paths import Operation
from ext_proc.openai.sse import MAX_EVENT_BYTES, Event, EventParser, EventTooLarge, encode_event
from ext_proc.openai.usage import Usage, estimate_tokens, parse_usage

# Two line ends in a row; a CRLF is never taken for two (https://html.spec.whatwg.org/multipage/server-sent-events.html).
_EVENT_END: Final = re.compile(rb"(?>\r\n|\n|\r){2}")
_USAGE: Final = b'"usage"'
_NO_USAGE: Final = re.compile(
    rb',[ \t]*"usage"[ \t]*:[ \t]*null(?=[ \t]*[,}])|(?<=\{)[ \t]*"usage"[ \t]*:[ \t]*null[ \t]*,'
)
_COMMENT: Final = rb"(?::[^\r\n]*(?>\r\n|\n|\r(?=[^\n])))"
_COMMENTS: Final = re.compile(_COMMENT + rb"+")
_BEFORE_EVENT: Final = re.compile(rb"\n?" + _COMMENT + rb"*")
# What a chunk that is only sent for the usage has beside it. Others are shown without it.
_SAID_BESIDE_USAGE: Final = frozenset(
    (
        "choices",
        "created",
        "id",
        "model",
        "obfuscation",
        "object",
        "provider",
        "service_tier",
        "system_fingerprint",
        "usage",
        "x_groq",
    )
)


def event_ends(data: bytes | bytearray, start: int = 0) -> list[int]:
    """Return where each event of `data` ends whose end begins at `start` or later."""
    if data.find(b"\r", start) >= 0:
        return [match.end() for match in _EVENT_END.finditer(data, start)]
    # Almost every provider ends its lines by LF alone, which is found without the expression's price.
    ends: list[int] = []
    at = data.find(b"\n\n", start)
    while at >= 0:
        ends.append(at + 2)
        at = data.find(b"\n\n", at + 2)
    return ends


def _last_event_end(data: bytes, start: int) -> int:
    """Return where the last event of `data` that ends after `start` ends, 0 without one."""
    # Whatever the style, of two line ends in a row the second begins right after the first one's last byte.
    end = max(data.rfind(pair, start) for pair in (b"\n\n", b"\n\r", b"\r\r")) + 2
    if end < 2:
        return 0
    return end + 1 if data[end - 1 : end + 1] == b"\r\n" else end


def _hidden(block: bytes, event: Event, chunk: dict[str, Any]) -> bytes:
    """Return an event without the usage that `chunk` has, and nothing of one that was sent for it alone."""
    usage = chunk["usage"]
    if usage is not None:
        if chunk.get("choices"):
            return block  # told without being asked: the caller's, then
        if not any(value for name, value in chunk.items() if name not in _SAID_BESIDE_USAGE):
            return b""
    elif block.count(_USAGE) == 1:
        # The other bytes stay as they came; a number may have more digits than we can hold.
        without, count = _NO_USAGE.subn(b"", block)
        if count:
            return without
    del chunk["usage"]
    try:
        content = encode(chunk)
    except TypeError:  # half a character
        return block
    # An id stands for all events after it too: it is said again only where it was said.
    said = event.id if b"id:" in block else None
    return encode_event(content, event=event.event, id=said, retry_ms=event.retry_ms)


class WholeEvents:
    """Passes a stream on in whole events: what is begun waits for its end."""

    __slots__ = ("_tail",)

    def __init__(self) -> None:
        self._tail = b""

    def feed(self, chunk: bytes) -> bytes:
        """Return the events that `chunk` ends. One that is too long for anybody to hold passes in parts."""
        data = self._tail + chunk
        # The end of an event may have begun up to three bytes before, with CR LF CR.
        end = _last_event_end(data, max(0, len(self._tail) - 3))
        if len(data) - end > MAX_EVENT_BYTES:
            end = len(data)
        self._tail = data[end:]
        return data[:end]

    def rest(self) -> bytes:
        """Return what has begun and not ended, once."""
        rest, self._tail = self._tail, b""
        return rest


class StreamRecorder:
    """Follows one stream. `hides_usage`: the caller did not ask for the usage, we did.

    `max_bytes` bounds what is held of it; a longer stream passes unrecorded. Whatever cannot be recorded, the
    usage is still read and hidden.
    """

    __slots__ = (
        "_ended",
        "_hides_usage",
        "_joiner",
        "_max_event",
        "_overlong",
        "_parser",
        "_tail",
        "usage",
    )

    def __init__(self, operation: Operation, *, hides_usage: bool, max_bytes: int) -> None:
        self._joiner = ChunkJoiner(operation, max_bytes)
        self._max_event = min(max_bytes, MAX_EVENT_BYTES)
        self._parser = EventParser(self._max_event)
        self._hides_usage = hides_usage
        self._tail = bytearray()
        # The event that has begun is longer than anybody holds, and passes as it comes.
        self._overlong = False
        self._ended = False
        self.usage: Usage | None = None

    def feed(self, chunk: bytes, *, end: bool) -> bytes | None:
        """Take what came; return what the caller is to get instead, None when that is the same.

        `end` says that the stream ended in order with this chunk.
        """
        self._ended = self._ended or end
        if self._hides_usage:
            return self._without_usage(chunk, end)
        if not self._overlong:
            try:
                for event in self._parser.feed(chunk):
                    self._read(event)
            except EventTooLarge:
                self._joiner.give_up()
                self._overlong = True
        return None

    def _read(self, event: Event) -> dict[str, Any] | None:
        """Add an event to the others; return its chunk, None if it has none."""
        chunk = self._joiner.add(event.data, event.event)
        if chunk is not None and chunk.get("usage") is not None:
            self.usage = parse_usage(chunk) or self.usage
        return chunk

    def _without_usage(self, chunk: bytes, end: bool) -> bytes | None:
        """Follow whole events and drop the usage from them; what is not whole yet waits for the rest."""
        held = len(self._tail)
        if held:
            self._tail += chunk
        data: bytes | bytearray = self._tail if held else chunk
        # The end of an event may have begun up to three bytes before, with CR LF CR.
        ends = event_ends(data, max(0, held - 3))
        if held and ends:
            data = bytes(data)
        whole = 0
        out: list[bytes] = []
        changed = bool(held)
        for end_of_event in ends:
            block = bytes(data[whole:end_of_event])
            visible = block if self._overlong else self._visible(block)
            self._overlong = False
            changed = changed or visible is not block
            out.append(visible)
            whole = end_of_event
        if not self._overlong and data.startswith(b":", whole):
            comments = _COMMENTS.match(data, whole)
            if comments is not None:
                # A sign of life, which is not to wait for the next event.
                out.append(bytes(comments[0]))
                whole = comments.end()
        if len(data) - whole > MAX_EVENT_BYTES or self._overlong:
            # Its end may have begun.
            begun = max(whole, len(data) - 3)
            out.append(bytes(data[whole:begun]))
            whole = begun
            self._joiner.give_up()
            self._overlong = True
            self._parser = EventParser(self._max_event)
        if whole or data is not self._tail:
            self._tail = bytearray(data[whole:])
        if end:
            out.append(bytes(self._tail))
            self._tail.clear()
        return b"".join(out) if changed or self._tail else None

    def _visible(self, block: bytes) -> bytes:
        if block.startswith((b":", b"\n")):
            # The end of a CR LF that was cut, and comments: shown whatever becomes of the event.
            before = _BEFORE_EVENT.match(block)
            if before is not None and before.end():
                rest = block[before.end() :]
                visible = self._visible(rest)
                return block if visible is rest else before[0] + visible
        try:
            events = self._parser.feed(block)
        except EventTooLarge:
            self._joiner.give_up()
            self._parser = EventParser(self._max_event)
            return block
        visible = block
        for event in events:
            chunk = self._read(event)
            if chunk is not None and "usage" in chunk:
                visible = _hidden(block, event, chunk)
        return visible

    @property
    def complete(self) -> bool:
        """Whether all of the answer has come: its end mark, or every finish reason and an end in order."""
        return self._joiner.finished and (self._joiner.done or self._ended)

    @property
    def done(self) -> bool:
        """Whether the end mark has come."""
        return self._joiner.done

    @property
    def produced(self) -> int:
        """A rough number of the tokens that have come: a chunk is at least one, and so are a few letters."""
        return max(self._joiner.spoken, estimate_tokens(self._joiner.text_bytes))

    def answer(self) -> bytes:
        """Return the joined answer; only of a complete stream."""
        return self._joiner.answer()
