"""A list of conversations in one chat call, for servers that take one: `choices[i]` answers `messages[i]`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from ext_proc.openai.batching.inputs import Input, Parts, Share
from ext_proc.openai.batching.native import by_index, composed, read_answer
from ext_proc.openai.batching.shares import tokens_shared_out
from ext_proc.openai.requests import Request, encode
from ext_proc.openai.usage import estimate_tokens, parse_usage

ENTRIES: Final = "choices"


class Array:
    """Chats whose `messages` become a list of conversations."""

    def take_apart(self, request: Request) -> Parts | None:
        """See `Codec`. One conversation with one answer; a request that is a list already goes alone."""
        document = request.document
        messages = document.get("messages")
        if (
            not isinstance(messages, list)
            or not messages
            or not all(isinstance(one, dict) for one in messages)
        ):
            return None
        if document.get("n") not in (None, 1):
            return None
        rest = {name: value for name, value in document.items() if name != "messages"}
        return Parts((Input(messages, max(estimate_tokens(len(encode({"m": messages}))), 1)),), rest)

    def put_together(self, parts: Parts, inputs: Sequence[Input]) -> dict[str, Any]:
        """See `Codec`."""
        return {**parts.rest, "messages": [one.value for one in inputs]}

    def deal_out(
        self, parts: Parts, inputs: Sequence[Input], sent: Mapping[str, Any], body: bytes
    ) -> Sequence[Share | None]:
        """See `Codec`."""
        document = read_answer(body)
        entries = by_index(document.pop(ENTRIES, None), len(inputs))
        usage = parse_usage(document)
        document.pop("usage", None)
        shared = tokens_shared_out(usage, [one.tokens for one in inputs], [_said(entry) for entry in entries])
        return [
            Share(document, ({**entry, "index": 0},), tokens)
            for entry, tokens in zip(entries, shared, strict=True)
        ]

    def compose(self, shares: Sequence[Share]) -> bytes:
        """See `Codec`."""
        return composed(ENTRIES, shares)


def _said(entry: Mapping[str, Any]) -> int:
    message = entry.get("message")
    text = message.get("content") if isinstance(message, dict) else None
    return len(text) if isinstance(text, str) else 0
