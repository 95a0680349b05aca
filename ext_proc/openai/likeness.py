"""How alike two answers to one question are, by their words: quick and rough (pure).

A sampled answer differs from itself in its wording, so what differs here need not differ in meaning. It is
for comparing two versions over many questions, never for giving one answer in the place of another.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Any, Final

import orjson

from ext_proc.openai.paths import Operation

AGREED_FROM: Final = 0.6
"""Answers that are at least so similar say about the same."""
READ_AT_MOST_CHARS: Final = 20_000
"""Of a longer answer the beginning is compared."""
# A word, a number with its sign and point, or one sign of a script that writes no spaces.
_WORDS: Final = re.compile(r"[぀-ヿ㐀-鿿豈-﫿가-힯]|[-+]?\d[\d.,]*\d|\w+")


def answer_text(operation: Operation, body: bytes) -> str | None:
    """Return all that a JSON answer says, calls of tools too; None when it is none. Never raises."""
    if operation is Operation.EMBEDDINGS:
        return None
    try:
        choices = orjson.loads(body)["choices"]
        return "\n".join(_said(operation, choice) for choice in choices)
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def similarity(one: str, other: str) -> float:
    """Return from 0 to 1 how many of their words two texts have in common, each as often as it is there.

    The coefficient of Sørensen and Dice, over multisets.
    """
    if one == other:
        return 1.0
    mine, theirs = _words(one), _words(other)
    total = mine.total() + theirs.total()
    return 2 * (mine & theirs).total() / total if total else 1.0


def _said(operation: Operation, choice: dict[str, Any]) -> str:
    if operation is not Operation.CHAT:
        return str(choice["text"])
    message = choice["message"]
    parts = [message.get("content") or "", message.get("refusal") or ""]
    for call in message.get("tool_calls") or ():
        function = call.get("function") or {}
        parts.append(f"{function.get('name')} {function.get('arguments')}")
    return "\n".join(str(part) for part in parts if part)


def _words(text: str) -> Counter[str]:
    return Counter(_WORDS.findall(text[:READ_AT_MOST_CHARS].casefold()))
