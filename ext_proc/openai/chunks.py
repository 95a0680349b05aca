"""Stream chunks to one answer, and one answer to stream chunks (pure).

A stored answer has one form, the JSON completion; a stream is joined to it and it is replayed as either form.
Unknown fields are kept: texts add up, lists whose items carry an `index` are merged by it, everything else is
the last value that was said. So whoever adds a replay up gets what the live stream added up to.

The chunks' form: https://platform.openai.com/docs/api-reference/chat-streaming.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import orjson

from ext_proc.openai.documents import encode
from ext_proc.openai.paths import Operation
from ext_proc.openai.sse import DONE, encode_event

# Said again by some providers in each chunk: never added up.
_SAID_AGAIN: Final = frozenset(("id", "index", "name", "object", "role", "type"))
_CHUNK_OBJECTS: Final = {Operation.CHAT: "chat.completion.chunk", Operation.COMPLETIONS: "text_completion"}
_OBJECTS: Final = {Operation.CHAT: "chat.completion", Operation.COMPLETIONS: "text_completion"}
_FAILED: Final = "error"


class NotJoinable(ValueError):
    """A chunk has a form that cannot be added to the others; the stream itself is none the worse for it."""


class ChunkJoiner:
    """Adds the chunks of one stream up. `max_bytes` bounds what is held.

    `failed` is true once the stream carried an error; such a stream is never complete. `spoken` is how many
    chunks had anything to say.
    """

    __slots__ = ("_bytes", "_choices", "_max_bytes", "_operation", "_top", "done", "failed", "spoken")

    def __init__(self, operation: Operation, max_bytes: int) -> None:
        self._operation = operation
        self._max_bytes = max_bytes
        self._bytes = 0
        self._top: dict[str, Any] = {}
        self._choices: dict[int, dict[str, Any]] = {}
        self.done = False
        self.failed = False
        self.spoken = 0

    def add(self, data: bytes) -> dict[str, Any] | None:
        """Add one event's data; return the chunk, or None for the end mark.

        Raises:
            NotJoinable: not a chunk, or more than `max_bytes` in all.
        """
        if data == DONE:
            self.done = True
            return None
        self._bytes += len(data)
        if self._bytes > self._max_bytes:
            raise NotJoinable("the stream is longer than what may be held")
        try:
            chunk = orjson.loads(data)
        except ValueError:
            raise NotJoinable("an event is no JSON") from None
        if not isinstance(chunk, dict):
            raise NotJoinable("an event is no JSON object")
        if chunk.get("error") is not None:
            self.failed = True
        for name, value in chunk.items():
            if name == "choices":
                self._add_choices(value)
            elif value is not None or name not in self._top:
                self._top[name] = value
        return chunk

    def _add_choices(self, choices: object) -> None:
        if choices is None:
            return
        if not isinstance(choices, list):
            raise NotJoinable("choices is no list")
        self.spoken += bool(choices)
        for position, choice in enumerate(choices):
            if not isinstance(choice, dict):
                raise NotJoinable("a choice is no object")
            index = choice.get("index", position)
            if not isinstance(index, int):
                raise NotJoinable("a choice's index is no number")
            joined = self._choices.setdefault(index, {"index": index})
            for name, value in choice.items():
                if name != "index":
                    joined[name] = _joined(name, joined.get(name), value)

    @property
    def text_bytes(self) -> int:
        """How long all texts are that have come, in UTF-8."""
        return sum(_text_bytes(choice) for choice in self._choices.values())

    @property
    def finished(self) -> bool:
        """Whether every choice has a finish reason, and nothing failed."""
        reasons = [choice.get("finish_reason") for choice in self._choices.values()]
        return bool(reasons) and all(reasons) and _FAILED not in reasons and not self.failed

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


def _text_bytes(value: object) -> int:
    if isinstance(value, str):
        return len(value.encode("utf-8", "surrogatepass"))
    if isinstance(value, dict):
        return sum(_text_bytes(part) for name, part in value.items() if name not in _SAID_AGAIN)
    return sum(map(_text_bytes, value)) if isinstance(value, list) else 0


def _without_index(item: Any) -> Any:
    if not isinstance(item, dict):
        return item
    return {name: value for name, value in item.items() if name != "index"}


def _joined(name: str, before: Any, value: Any) -> Any:
    if value is None:
        return before
    if before is None:
        # A copy of what will be added to; the chunk itself stays as it came.
        return _joined(name, value.__class__(), value) if isinstance(value, dict | list) else value
    if name in _SAID_AGAIN or before.__class__ is not value.__class__:
        return value
    if isinstance(value, str):
        return value if name == "finish_reason" else before + value
    if isinstance(value, dict):
        for key, item in value.items():
            before[key] = _joined(key, before.get(key), item)
        return before
    if isinstance(value, list):
        return _joined_lists(before, value)
    return value


def _joined_lists(before: list[Any], items: list[Any]) -> list[Any]:
    for item in items:
        index = item.get("index") if isinstance(item, dict) else None
        if not isinstance(index, int):
            before.append(item)
            continue
        known = next((one for one in before if isinstance(one, dict) and one.get("index") == index), None)
        if known is None:
            before.append(_joined("", {}, item))
        else:
            _joined("", known, item)
    return before


def replay(operation: Operation, body: bytes, *, include_usage: bool, pieces: int = 1) -> Iterator[bytes]:
    """Yield the events of a stream that adds up to the answer `body`, the end mark last.

    Args:
        operation: chat or completions.
        body: a complete JSON completion.
        include_usage: whether the caller asked for the usage chunk.
        pieces: into how many parts the text is cut at most.

    Raises:
        NotJoinable: `body` is no completion.
    """
    try:
        document = orjson.loads(body)
    except ValueError:
        raise NotJoinable("the answer is no JSON") from None
    choices = document.get("choices") if isinstance(document, dict) else None
    if not isinstance(choices, list) or not all(isinstance(choice, dict) for choice in choices):
        raise NotJoinable("the answer has no choices")
    usage = document.pop("usage", None)
    top = {**document, "object": _CHUNK_OBJECTS.get(operation, "chat.completion.chunk")}
    if include_usage:
        top["usage"] = None
    for position, choice in enumerate(choices):
        for part in _parts(operation, {"index": position, **choice}, pieces):
            yield encode_event(encode({**top, "choices": [part]}))
    if include_usage:
        yield encode_event(encode({**top, "choices": [], "usage": usage}))
    yield encode_event(DONE)


def _parts(operation: Operation, choice: dict[str, Any], pieces: int) -> Iterator[dict[str, Any]]:
    """Cut one choice: what opens it, its text, what ends it."""
    end = {name: choice.pop(name) for name in ("finish_reason", "logprobs") if name in choice}
    reason, logprobs = end.get("finish_reason"), end.get("logprobs")
    index = choice["index"]
    if operation is Operation.CHAT:
        message = choice.pop("message", None)
        delta = dict(message) if isinstance(message, dict) else {}
        text = delta.get("content")
        calls = delta.get("tool_calls")
        if isinstance(calls, list):
            delta["tool_calls"] = [
                {"index": number, **call} if isinstance(call, dict) else call
                for number, call in enumerate(calls)
            ]
        if isinstance(text, str):
            delta["content"] = ""
        yield {**choice, "delta": delta, "logprobs": logprobs, "finish_reason": None}
        for piece in _cut(text, pieces):
            yield {"index": index, "delta": {"content": piece}, "logprobs": None, "finish_reason": None}
        yield {"index": index, "delta": {}, "logprobs": None, "finish_reason": reason}
        return
    text = choice.pop("text", None)
    for number, piece in enumerate(_cut(text, pieces)):
        more = choice if not number else {"index": index}
        shown = logprobs if not number else None
        yield {**more, "text": piece, "logprobs": shown, "finish_reason": None}
    yield {"index": index, "text": "", "logprobs": None, "finish_reason": reason}


def _cut(text: object, pieces: int) -> Iterator[str]:
    if not isinstance(text, str) or not text:
        return
    size = max(1, -(-len(text) // max(1, pieces)))
    for start in range(0, len(text), size):
        yield text[start : start + size]
