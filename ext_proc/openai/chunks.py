"""Stream chunks to one answer, and one answer to stream chunks (pure).

A stored answer has one form, the JSON completion; a stream is joined to it and it is replayed as either form.
Unknown fields are kept. In a delta texts add up, but for what is said again, and lists are merged by what
their items say of themselves; everything else is the last value that was said, and nothing is unsaid by an
empty one. So whoever adds a replay up gets what the live stream added up to.

The chunks' form: https://platform.openai.com/docs/api-reference/chat-streaming.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final, NoReturn

import orjson

from ext_proc.openai.documents import encode
from ext_proc.openai.paths import Operation
from ext_proc.openai.sse import DONE, encode_event, is_done

# Said again by some providers in each chunk: never added up. Any other text of a delta is, known or not, as
# OpenAI's client does.
_SAID_AGAIN: Final = frozenset(
    ("channel", "format", "id", "index", "name", "object", "phase", "recipient", "role", "status", "type")
)
# Texts that some choices have beside their delta, or in the place of it.
_TEXTS: Final = frozenset(("reasoning", "reasoning_content", "text"))
_CHUNK_OBJECTS: Final = {Operation.CHAT: "chat.completion.chunk", Operation.COMPLETIONS: "text_completion"}
_OBJECTS: Final = {Operation.CHAT: "chat.completion", Operation.COMPLETIONS: "text_completion"}
_FAILED: Final = "error"
# With fewer, nothing is nested too deeply to be written.
_MOST_BRACKETS: Final = 200
_KEEP_ALIVE: Final = "ping"
_PLAIN_EVENTS: Final = (b"", b"message")


class NotJoinable(ValueError):
    """A chunk has a form that cannot be added to the others; the stream itself is none the worse for it."""


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
            joined = self._choices.setdefault(index, {"index": index})
            for name, value in choice.items():
                if name == "delta" or name in _TEXTS:
                    joined[name] = _joined(name, joined.get(name), value)
                    if name == "delta" and not isinstance(joined[name], dict | None):
                        raise NotJoinable("a delta is no object")
                elif name == "logprobs":
                    joined[name] = _extended(joined.get(name), value)
                elif name == "message" and value:
                    raise NotJoinable("a choice is told whole")
                elif name != "index" and (joined.get(name) is None or _says(value)):
                    joined[name] = value

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
        return sum(_text_bytes(part) for name, part in value.items() if name not in _SAID_AGAIN)
    return sum(map(_text_bytes, value)) if isinstance(value, list) else 0


def _without_index(item: Any) -> Any:
    if not isinstance(item, dict):
        return item
    return {name: value for name, value in item.items() if name != "index"}


def _says(value: object) -> bool:
    return bool(value) or isinstance(value, int | float)


def _joined(name: str, before: Any, value: Any) -> Any:
    """Return what two values of one field of a delta add up to; `before` may be changed."""
    if value is None:
        return before
    if before is None:
        # A copy of what will be added to; the chunk itself stays as it came.
        return _joined(name, value.__class__(), value) if isinstance(value, dict | list) else value
    kind = value.__class__
    if kind is not before.__class__:
        return _joined_with_another_kind(name, before, value)
    if kind is str:
        if name in _SAID_AGAIN:
            return value or before
        return _added(before, value)
    if kind is dict:
        for key, item in value.items():
            before[key] = _joined(key, before.get(key), item)
        return before
    if kind is list:
        return _joined_lists(name, before, value)
    return value


def _joined_with_another_kind(name: str, before: Any, value: Any) -> Any:
    compound = (str, list, dict)
    if not isinstance(before, compound) and not isinstance(value, compound):
        return value
    if isinstance(value, compound) and not value:
        return before
    if isinstance(before, compound) and not before:
        return _joined(name, None, value)
    if name == "content" and {before.__class__, value.__class__} == {str, list}:
        # Some think in parts and then answer in plain text.
        return _joined(name, _content_parts(before), _content_parts(value))
    if name in _SAID_AGAIN:
        return value
    raise NotJoinable(f"{name} is now of one kind, now of another")


def _content_parts(content: str | list[Any]) -> list[Any]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _added(before: str, value: str) -> str:
    if "\ud800" <= before[-1:] <= "\udbff" and "\udc00" <= value[:1] <= "\udfff":
        pair = (before[-1] + value[0]).encode("utf-16-le", "surrogatepass").decode("utf-16-le")
        return before[:-1] + pair + value[1:]
    return before + value


def _joined_lists(name: str, before: list[Any], items: list[Any]) -> list[Any]:
    for item in items:
        if not isinstance(item, dict):
            before.append(item)
            continue
        known = _known_call(before, item) if name == "tool_calls" else _known_item(name, before, item)
        if known is None:
            before.append(_joined("", {}, item))
        else:
            _joined("", known, item)
    return before


def _known_item(name: str, before: list[Any], item: dict[str, Any]) -> dict[str, Any] | None:
    index = item.get("index")
    if isinstance(index, int):
        return next((one for one in before if isinstance(one, dict) and one.get("index") == index), None)
    if name == "content" and before and set(item) == {"type", "text"}:
        last = before[-1]
        return last if isinstance(last, dict) and set(last) == set(item) else None
    return None


def _known_call(calls: list[Any], item: dict[str, Any]) -> dict[str, Any] | None:
    """Return the tool call that `item` is a fragment of, None if it begins one.

    By its index, which some providers leave out or have 0 for each, then by its id, which some say once and
    some again; without either it is a fragment of the last one, unless it begins anew.
    """
    known = [one for one in calls if isinstance(one, dict)]
    index, call_id = item.get("index"), item.get("id")
    has_index = isinstance(index, int)
    if has_index:
        known = [one for one in known if one.get("index") == index]
    if call_id:
        same = [one for one in known if one.get("id") == call_id]
        if same or not has_index:
            return same[-1] if same else None
        if _function_name(item):
            known = [one for one in known if not one.get("id")]
        # Else each fragment has an id of its own.
    return known[-1] if known and not _begins_anew(known[-1], item) else None


def _function_name(call: dict[str, Any]) -> object:
    function = call.get("function")
    return function.get("name") if isinstance(function, dict) else None


def _begins_anew(call: dict[str, Any], item: dict[str, Any]) -> bool:
    of_call, of_item = call.get("function"), item.get("function")
    if not isinstance(of_call, dict) or not isinstance(of_item, dict) or not of_item.get("name"):
        return False
    if of_item["name"] != of_call.get("name"):
        return bool(of_call.get("name"))
    return bool(of_item.get("arguments")) and _is_json(of_call.get("arguments"))


def _is_json(text: object) -> bool:
    try:
        orjson.loads(text if isinstance(text, str) else "")
    except ValueError:
        return False
    return True


def _extended(before: Any, value: Any) -> Any:
    """Return logarithms of probabilities of more tokens: lists, or an object of lists."""
    if value is None:
        return before
    if before is None:
        before = value.__class__() if isinstance(value, dict | list) else value
    if value.__class__ is not before.__class__:
        raise NotJoinable("logprobs are now of one kind, now of another")
    if isinstance(value, list):
        before.extend(value)
        return before
    if isinstance(value, dict):
        for name, item in value.items():
            before[name] = (
                _extended(before.get(name), item)
                if isinstance(item, dict | list)
                else item or before.get(name)
            )
        return before
    return value


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
