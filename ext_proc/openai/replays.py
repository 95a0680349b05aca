"""One answer to the chunks of a stream (pure); `chunks` has the way back."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import orjson

from ext_proc.openai.deltas import NotJoinable
from ext_proc.openai.documents import encode
from ext_proc.openai.paths import Operation
from ext_proc.openai.sse import DONE, encode_event

_CHUNK_OBJECTS: Final = {Operation.CHAT: "chat.completion.chunk", Operation.COMPLETIONS: "text_completion"}


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
