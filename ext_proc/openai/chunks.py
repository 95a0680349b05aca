"""Stream chunks to one answer (pure); `replays` has the way back.

A stored answer has one form, the JSON completion; a stream is joined to it and it is replayed as either form.
Unknown fields are kept. In a delta texts add up, but for what is said again, and lists are merged by what
their items say of themselves; everything else is the last value that was said, and nothing is unsaid by an
empty one. So whoever adds a replay up gets what the live stream added up to.

The chunks' form: https://platform.openai.com/docs/api-reference/chat-streaming.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, NoReturn

import orjson

from ext_proc.openai.deltas import SAID_AGAIN, TEXTS, NotJoinable, extended, joined, says
from ext_proc.openai.documents import encode
from ext_proc.openai.paths import Operation
from ext_proc.openai.sse import is_done

_OBJECTS: Final = {Operation.CHAT: "chat.completion", Operation.COMPLETIONS: "text_completion"}
_FAILED: Final = "error"
# With fewer, nothing is nested too deeply to be written.
_MOST_BRACKETS: Final = 200
_KEEP_ALIVE: Final = "ping"
_PLAIN_EVENTS: Final = (b"", b"message")


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is no number")


class ChunkJoiner:
    """Adds the chunks of one stream up. `max_bytes` bounds what is held.

    `joinable` is false once a chunk had a form that cannot be added to the others, or was one too many; the
    stream itself is none the worse for it. `failed` is true once the stream carried an error. Such streams
    are never finished. `spoken` is how many chunks had anything to say.
    """

    __slots__ = (
        "_bytes",
        "_choices",
        "_doubtful",
        "_max_bytes",
        "_operation",
        "_passed_bytes",
        "_top",
        "done",
        "failed",
        "joinable",
        "spoken",
    )

    def __init__(self, operation: Operation, max_bytes: int) -> None:
        self._operation = operation
        self._max_bytes = max_bytes
        self._bytes = 0
        self._top: dict[str, Any] = {}
        self._choices: dict[int, dict[str, Any]] = {}
        self._doubtful = False
        self._passed_bytes = 0
        self.joinable = True
        self.done = False
        self.failed = False
        self.spoken = 0

    def add(self, data: bytes, kind: bytes = b"") -> dict[str, Any] | None:
        """Add one event's data; `kind` is the event's type.

        Return the JSON object that it holds, whether it can be added or not; None if it holds none.
        """
        if is_done(data):
            self.done = True
            return None
        chunk = self._read(data)
        if chunk is not None and chunk.get("choices"):
            self.spoken += 1
        if self.joinable:
            self._bytes += len(data)
            try:
                self._join(chunk, kind, is_empty=not data)
            except (NotJoinable, RecursionError):
                self.give_up()
        if not self.joinable and chunk is not None:
            self._passed_bytes += _length(chunk.get("choices"))
        return chunk

    def give_up(self) -> None:
        """Hold no more of the stream, and only count what comes."""
        self.joinable = False
        self._passed_bytes, self._choices = self.text_bytes, {}

    def _read(self, data: bytes) -> dict[str, Any] | None:
        try:
            chunk = orjson.loads(data)
        except ValueError:
            try:
                # A character may be cut into the escapes of its halves, each in an event of its own.
                chunk = json.loads(data, parse_constant=_no_number)
            except (ValueError, RecursionError):
                return None
            self._doubtful = True
        if data.count(b"{") + data.count(b"[") > _MOST_BRACKETS:
            self._doubtful = True
        return chunk if isinstance(chunk, dict) else None

    def _join(self, chunk: dict[str, Any] | None, kind: bytes, *, is_empty: bool) -> None:
        if self._bytes > self._max_bytes:
            raise NotJoinable("the stream is longer than what may be held")
        if kind == b"error":
            self.failed = True
            return
        if chunk is None:
            if not is_empty and kind in _PLAIN_EVENTS:
                raise NotJoinable("an event is no JSON object")
            return
        if chunk.get("error") or _FAILED in (chunk.get("object"), chunk.get("type")):
            self.failed = True
        if "choices" not in chunk and (kind not in _PLAIN_EVENTS or chunk.get("type") == _KEEP_ALIVE):
            return
        top = self._top
        for name, value in chunk.items():
            if name == "choices":
                self._add_choices(value)
            elif value or value is False or name not in top:
                top[name] = value

    def _add_choices(self, choices: object) -> None:
        if choices is None:
            return
        if not isinstance(choices, list):
            raise NotJoinable("choices is no list")
        for position, choice in enumerate(choices):
            if not isinstance(choice, dict):
                raise NotJoinable("a choice is no object")
            index = choice.get("index", position)
            if not isinstance(index, int):
                raise NotJoinable("a choice's index is no number")
            known = self._choices.setdefault(index, {"index": index})
            for name, value in choice.items():
                if name == "delta" or name in TEXTS:
                    known[name] = joined(name, known.get(name), value)
                    if name == "delta" and not isinstance(known[name], dict | None):
                        raise NotJoinable("a delta is no object")
                elif name == "logprobs":
                    known[name] = extended(known.get(name), value)
                elif name == "message" and value:
                    raise NotJoinable("a choice is told whole")
                elif name != "index" and (known.get(name) is None or says(value)):
                    known[name] = value

    @property
    def text_bytes(self) -> int:
        """How long all texts are that have come, in UTF-8."""
        return self._passed_bytes + sum(map(_length, self._choices.values()))

    @property
    def finished(self) -> bool:
        """Whether every choice has a finish reason, and nothing failed."""
        reasons = [choice.get("finish_reason") for choice in self._choices.values()]
        said = bool(reasons) and all(reasons) and _FAILED not in reasons
        return said and not self.failed and self.joinable and not (self._doubtful and self._is_unwritable())

    def _is_unwritable(self) -> bool:
        try:
            self.answer()
        except TypeError:  # half a character, or nesting that is too deep
            return True
        return False

    def answer(self) -> bytes:
        """Return the answer that the chunks add up to, as a JSON completion would have it."""
        document = {name: value for name, value in self._top.items() if name != "usage" or value is not None}
        document["object"] = _OBJECTS.get(self._operation, "chat.completion")
        document["choices"] = [self._choice(self._choices[index]) for index in sorted(self._choices)]
        return encode(document)

    def _choice(self, joined: Mapping[str, Any]) -> dict[str, Any]:
        choice = dict(joined)
        if self._operation is not Operation.CHAT:
            return choice
        delta = choice.pop("delta", None) or {}
        message = {"role": "assistant", "content": None, **delta}
        calls = message.get("tool_calls")
        if isinstance(calls, list):
            message["tool_calls"] = [_without_index(call) for call in calls]
        choice["message"] = message
        return choice


def _length(value: object) -> int:
    try:
        return _text_bytes(value)
    except RecursionError:
        return 0


def _text_bytes(value: object) -> int:
    if isinstance(value, str):
        return len(value.encode("utf-8", "surrogatepass"))
    if isinstance(value, dict):
        return sum(_text_bytes(part) for name, part in value.items() if name not in SAID_AGAIN)
    return sum(map(_text_bytes, value)) if isinstance(value, list) else 0


def _without_index(item: Any) -> Any:
    if not isinstance(item, dict):
        return item
    return {name: value for name, value in item.items() if name != "index"}
