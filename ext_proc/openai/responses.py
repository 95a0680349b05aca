"""What a provider's JSON answer holds: usage, finish reasons, and whether it is whole (pure)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import orjson

from ext_proc.openai.paths import Operation
from ext_proc.openai.requests import Request
from ext_proc.openai.usage import Usage, parse_usage

_FAILED: Final = "error"  # some providers end a choice so when they break off in the middle
_ENDS_ELSEWHERE: Final = ("eos_token", "stop_sequence", "end_turn", "max_tokens", "tool_use")
_FILTER: Final = "content_filter"
ENDS: Final = frozenset(("stop", "length", "tool_calls", "function_call", *_ENDS_ELSEWHERE))
"""The finish reasons of an answer that came to its end; any other may be a filter's or a fault's."""


@dataclass(frozen=True, slots=True)
class Completion:
    """A 200 answer of chat, completions or embeddings.

    `complete` is true when it is whole: no error in it or in a choice, and at least one choice, each with its
    message or text and a finish reason (embeddings: at least one vector, none missing, no index twice).
    `model` is the provider's own word; `answers` is how many choices or vectors there are. `refused` is true
    when a filter cut a choice short, or the model says that it refuses.
    """

    usage: Usage | None = None
    finish_reasons: tuple[str, ...] = ()
    complete: bool = False
    model: str | None = None
    answers: int = 0
    refused: bool = False

    def answers_all_of(self, request: Request) -> bool:
        """Whether it may be kept as the answer to `request`: whole, at its end, as many as were asked.

        A server that does not know `n` gives one choice to each input, the next time too.
        """
        if not self.complete or not ENDS.issuperset(self.finish_reasons):
            return False
        inputs, each = _answers_asked(request)
        return self.answers in (inputs, inputs * each)


def _answers_asked(request: Request) -> tuple[int, int]:
    """Return how many inputs `request` has, and answers to each; 0 when only its provider knows."""
    document = request.document
    if request.operation is Operation.EMBEDDINGS:
        return _inputs(document.get("input")), 1
    number = document.get("n")
    if number is None:
        number = 1
    if isinstance(number, bool) or not isinstance(number, int | float) or number < 1 or number % 1 != 0:
        return 0, 0
    if request.operation is Operation.CHAT:
        messages = document.get("messages")
        several = isinstance(messages, list) and _begins_with(messages, list)
        return len(messages) if several and isinstance(messages, list) else 1, int(number)
    return _inputs(document.get("prompt")), int(number)


def _inputs(value: object) -> int:
    """A text, the numbers of its tokens, or nothing (a server's own default) is one; else a list of such."""
    return len(value) if isinstance(value, list) and not _begins_with(value, int) else 1


def _begins_with(values: list[Any], kind: type) -> bool:
    # The first one tells: a list of several kinds is refused by providers.
    return bool(values) and isinstance(values[0], kind)


def parse_completion(operation: Operation, body: bytes) -> Completion | None:
    """Return what `body` (the whole body of a 200) holds, or None when it is no JSON object.

    Never raises: a provider may answer anything.
    """
    try:
        document = orjson.loads(body)
    except ValueError:
        return None
    if not isinstance(document, dict):
        return None
    model = document.get("model")
    name = model if isinstance(model, str) else None
    usage = parse_usage(document)
    if document.get("error") is not None:
        return Completion(usage, (), False, name)
    entries = document.get("data" if operation is Operation.EMBEDDINGS else "choices")
    if not isinstance(entries, list) or not entries:
        return Completion(usage, (), False, name)
    if operation is Operation.EMBEDDINGS:
        return Completion(usage, (), _vectors_are_whole(entries), name, len(entries))
    reasons = tuple(reason for choice in entries if (reason := _finish_reason(choice)))
    whole = len(reasons) == len(entries) and _FAILED not in reasons and _choices_are_whole(operation, entries)
    refused = _FILTER in reasons or any(map(_is_refusal, entries))
    return Completion(usage, reasons, whole, name, len(entries), refused)


def _is_refusal(choice: object) -> bool:
    message = choice.get("message") if isinstance(choice, dict) else None
    return isinstance(message, dict) and bool(message.get("refusal"))


def _finish_reason(choice: object) -> str:
    reason = choice.get("finish_reason") if isinstance(choice, dict) else None
    return reason if isinstance(reason, str) else ""


def _choices_are_whole(operation: Operation, choices: list[dict[str, Any]]) -> bool:
    part, kind = ("message", dict) if operation is Operation.CHAT else ("text", str)
    return _are_told_apart(choices) and all(
        isinstance(choice.get(part), kind) and choice.get("error") is None for choice in choices
    )


def _vectors_are_whole(vectors: list[Any]) -> bool:
    return (
        all(isinstance(vector, dict) and _is_vector(vector.get("embedding")) for vector in vectors)
        and _are_told_apart(vectors)
        and all((vector.get("index") or 0) < len(vectors) for vector in vectors)
    )


def _is_vector(value: object) -> bool:
    if isinstance(value, str):
        return bool(value)
    if not isinstance(value, list) or not value or isinstance(value[0], bool):
        return False
    try:
        # Much the cheapest way to ask thousands whether they are numbers.
        sum(value)
    except TypeError:
        return False
    return True


def _are_told_apart(entries: list[dict[str, Any]]) -> bool:
    """Whether no index is there twice; an entry that tells none has that of its place."""
    indexes = set()
    for place, entry in enumerate(entries):
        index = entry.get("index")
        if index is None:
            index = place
        if index.__class__ is not int or index < 0:
            return False
        indexes.add(index)
    return len(indexes) == len(entries)
