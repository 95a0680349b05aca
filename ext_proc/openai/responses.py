"""What a provider's JSON answer holds: usage, finish reasons, and whether it is whole (pure)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import orjson

from ext_proc.openai.paths import Operation
from ext_proc.openai.usage import Usage, parse_usage

_FAILED: Final = "error"  # some providers end a choice so when they break off in the middle


@dataclass(frozen=True, slots=True)
class Completion:
    """A 200 answer of chat, completions or embeddings.

    `complete` is true when it may be kept: no error in it and at least one choice, each with a finish
    reason (embeddings: at least one vector, none missing). `model` is the provider's own word.
    """

    usage: Usage | None = None
    finish_reasons: tuple[str, ...] = ()
    complete: bool = False
    model: str | None = None


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
    if operation is Operation.EMBEDDINGS:
        return Completion(usage, (), _vectors_are_whole(document.get("data")), name)
    reasons, complete = _finish_reasons(document.get("choices"))
    return Completion(usage, reasons, complete, name)


def _finish_reasons(choices: object) -> tuple[tuple[str, ...], bool]:
    if not isinstance(choices, list) or not choices:
        return (), False
    reasons: list[str] = []
    for choice in choices:
        reason = choice.get("finish_reason") if isinstance(choice, dict) else None
        if isinstance(reason, str) and reason:
            reasons.append(reason)
    return tuple(reasons), len(reasons) == len(choices) and _FAILED not in reasons


def _vectors_are_whole(data: object) -> bool:
    return (
        isinstance(data, list)
        and bool(data)
        and all(
            isinstance(item, dict) and isinstance(item.get("embedding"), list | str) and item["embedding"]
            for item in data
        )
    )
