"""Which requests ask a question that may have been asked in other words, and among which others (pure)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final

from ext_proc.exchange import Exchange
from ext_proc.openai.paths import Operation
from ext_proc.openai.requests import Request
from ext_proc.question import question_key

# Of a longer text, a vector says too little about what its details are.
MAX_CHARS: Final = 1_000
# A tuple: a role may be anything, also what no set can be asked for.
_INSTRUCTIONS: Final = ("system", "developer")


@dataclass(frozen=True, slots=True)
class SimilarQuestion:
    """What is asked, and among which questions it may find another one: 32 bytes."""

    text: str
    partition: bytes


def similar_question(exchange: Exchange) -> SimilarQuestion | None:
    """Return the exchange's question; None when only the very same request may share its answer.

    A question is the only user message of a chat, after system or developer messages at most, or the only
    prompt of a completion, in text, with one answer wanted. Its partition is the request without that text:
    who asks, the version that answers, the other messages, tools and every parameter.
    """
    request = exchange.parsed
    document = request.document
    count = document.get("n")
    if (count is not None and count != 1) or count is True:
        return None
    if request.operation is Operation.CHAT:
        found = _of_chat(document)
    elif request.operation is Operation.COMPLETIONS and not document.get("echo"):
        found = _of_completion(document)
    else:
        return None
    if found is None:
        return None
    text, rest = found
    text = text.strip()
    if not text or len(text) > MAX_CHARS:
        return None
    blank = Request(request.operation, rest, request.model, request.stream)
    return SimilarQuestion(text, question_key(replace(exchange, request=blank)))


def _of_chat(document: dict[str, Any]) -> tuple[str, dict[str, Any]] | None:
    messages = document.get("messages")
    if not isinstance(messages, list) or not messages:
        return None
    *before, last = messages
    if not isinstance(last, dict) or last.get("role") != "user":
        return None
    if not all(isinstance(message, dict) and message.get("role") in _INSTRUCTIONS for message in before):
        return None
    content = last.get("content")
    blank: object = None
    if isinstance(content, list) and len(content) == 1 and isinstance(content[0], dict):
        part = content[0]
        content = part.get("text") if part.get("type") == "text" else None
        blank = [{**part, "text": None}]
    if not isinstance(content, str):
        return None
    return content, {**document, "messages": [*before, {**last, "content": blank}]}


def _of_completion(document: dict[str, Any]) -> tuple[str, dict[str, Any]] | None:
    prompt = document.get("prompt")
    if isinstance(prompt, str):
        return prompt, {**document, "prompt": None}
    if isinstance(prompt, list) and len(prompt) == 1 and isinstance(prompt[0], str):
        return prompt[0], {**document, "prompt": [None]}
    return None
