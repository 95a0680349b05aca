"""Batches that the API itself has: `input` of embeddings, `prompt` of completions.

https://platform.openai.com/docs/api-reference/embeddings/create,
https://platform.openai.com/docs/api-reference/completions/create
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import orjson

from ext_proc.openai.batching.inputs import Input, Mismatch, Parts, Share
from ext_proc.openai.batching.shares import tokens_shared_out
from ext_proc.openai.paths import Operation
from ext_proc.openai.requests import Request, encode
from ext_proc.openai.usage import estimate_tokens, parse_usage

_FIELD: Final = {Operation.EMBEDDINGS: "input", Operation.COMPLETIONS: "prompt"}
_ENTRIES: Final = {Operation.EMBEDDINGS: "data", Operation.COMPLETIONS: "choices"}
MAX_CHOICES: Final = 16


class Native:
    """Lists of inputs of `operation`, embeddings or completions."""

    def __init__(self, operation: Operation) -> None:
        self._field = _FIELD[operation]
        self._entries = _ENTRIES[operation]

    def take_apart(self, request: Request) -> Parts | None:
        """See `Codec`. Completions that are ranked or streamed go alone."""
        document = request.document
        inputs = _inputs(document.get(self._field))
        if inputs is None or document.get("best_of") is not None:
            return None
        choices = document.get("n", 1) if self._entries == "choices" else 1
        if choices.__class__ is not int or not 1 <= choices <= MAX_CHOICES:
            return None
        rest = {name: value for name, value in document.items() if name != self._field}
        kind = "texts" if isinstance(inputs[0].value, str) else "tokens"
        return Parts(inputs, rest, choices, kind)

    def put_together(self, parts: Parts, inputs: Sequence[Input]) -> dict[str, Any]:
        """See `Codec`."""
        return {**parts.rest, self._field: [one.value for one in inputs]}

    def deal_out(
        self, parts: Parts, inputs: Sequence[Input], sent: Mapping[str, Any], body: bytes
    ) -> Sequence[Share | None]:
        """See `Codec`. Every index from 0 on must be there once, whatever the order."""
        document = read_answer(body)
        entries = by_index(document.pop(self._entries, None), len(inputs) * parts.answers)
        usage = parse_usage(document)
        document.pop("usage", None)
        groups = [
            entries[place * parts.answers : (place + 1) * parts.answers] for place in range(len(inputs))
        ]
        shared = tokens_shared_out(usage, [one.tokens for one in inputs], [_said(group) for group in groups])
        return [
            Share(document, tuple({**entry, "index": at} for at, entry in enumerate(group)), tokens)
            for group, tokens in zip(groups, shared, strict=True)
        ]

    def compose(self, shares: Sequence[Share]) -> bytes:
        """See `Codec`."""
        return composed(self._entries, shares)


def read_answer(body: bytes) -> dict[str, Any]:
    """Return the answer's document.

    Raises:
        Mismatch: it is none, or an error.
    """
    try:
        document = orjson.loads(body)
    except ValueError:
        raise Mismatch("the answer is no JSON") from None
    if not isinstance(document, dict) or document.get("error") is not None:
        raise Mismatch("the answer is an error, or no object")
    return document


def by_index(entries: object, count: int) -> list[dict[str, Any]]:
    """Return `entries` in the order of their `index`.

    Raises:
        Mismatch: one is missing, doubled, or has no index.
    """
    if not isinstance(entries, list) or len(entries) != count:
        raise Mismatch(f"the answer does not have {count} entries")
    found: list[dict[str, Any] | None] = [None] * count
    for entry in entries:
        index = entry.get("index") if isinstance(entry, dict) else None
        if index.__class__ is not int or not 0 <= index < count or found[index] is not None:
            raise Mismatch("an index is missing, doubled or too large")
        found[index] = entry
    return [entry for entry in found if entry is not None]


def composed(name: str, shares: Sequence[Share]) -> bytes:
    """Return one answer whose entries, under `name`, are those of `shares` in their order."""
    entries: list[dict[str, Any]] = []
    for share in shares:
        entries += [{**entry, "index": len(entries) + at} for at, entry in enumerate(share.entries)]
    document = {**shares[0].top, name: entries}
    tokens = [share.tokens for share in shares if share.tokens is not None]
    # What the provider did not tell is not made up.
    if len(tokens) == len(shares):
        prompt, completion = (sum(numbers) for numbers in zip(*tokens, strict=True))
        document["usage"] = {"prompt_tokens": prompt, "total_tokens": prompt + completion}
        if name == "choices":
            document["usage"]["completion_tokens"] = completion
    return encode(document)


def _inputs(value: object) -> tuple[Input, ...] | None:
    """Read `input` or `prompt`: a text, token numbers, or a list of either."""
    if isinstance(value, str):
        return (_text(value),)
    if not isinstance(value, list) or not value:
        return None
    if all(isinstance(one, str) for one in value):
        return tuple(_text(one) for one in value)
    if _is_tokens(value):
        return (Input(value, len(value)),)
    if all(isinstance(one, list) and _is_tokens(one) for one in value):
        return tuple(Input(one, len(one)) for one in value)
    return None


def _text(value: str) -> Input:
    return Input(value, max(estimate_tokens(len(value.encode("utf-8", "surrogatepass"))), 1))


def _is_tokens(value: list[Any]) -> bool:
    return bool(value) and all(one.__class__ is int for one in value)


def _said(group: Sequence[Mapping[str, Any]]) -> int:
    return sum(len(text) for entry in group if isinstance(text := entry.get("text"), str))
