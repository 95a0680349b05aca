"""Whether two answers say the same.

Strict: an answer that only might say the same counts as another one. That costs hits, never a wrong answer.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from typing import Any, Final, Protocol

import orjson

from ext_proc.openai.paths import Operation
from ext_proc.semantic.embedding import Vectors
from ext_proc.semantic.marks import read_marks
from ext_proc.semantic.veto import veto

BAR: Final = 0.97
"""How alike the vectors of two answers must be that differ in their wording."""
MAX_CHARS: Final = 1_000
"""Longer answers must be equal: a vector of so much text says nothing of its details."""
_MORE_THAN_TEXT: Final = ("tool_calls", "function_call", "refusal", "audio", "annotations")


class AnswerEmbedder(Protocol):
    """Makes vectors of answers."""

    async def embed(self, texts: Sequence[str]) -> Vectors:
        """Return one row of unit length for each text. Raises EmbeddingFailed."""
        ...


def answer_text(operation: Operation, body: bytes) -> str | None:
    """Return the text of a JSON answer; None when it is not just one finished text. Never raises."""
    try:
        choices = orjson.loads(body)["choices"]
        if len(choices) != 1 or choices[0]["finish_reason"] != "stop":
            return None
        if operation is Operation.CHAT:
            message: dict[str, Any] = choices[0]["message"]
            text = None if any(message.get(name) for name in _MORE_THAN_TEXT) else message["content"]
        else:
            text = choices[0]["text"]
    except (ValueError, KeyError, TypeError, AttributeError, IndexError):
        return None
    return text if isinstance(text, str) and text.strip() else None


async def is_same(one: str, other: str, embedder: AnswerEmbedder | None) -> bool:
    """Whether the answers are equal but for case, white space and punctuation, or surely mean the same.

    Without an `embedder` only equal ones do.

    Raises:
        EmbeddingFailed: they differ, and whoever could tell more is not there.
    """
    if _plain(one) == _plain(other):
        return True
    if embedder is None or max(len(one), len(other)) > MAX_CHARS:
        return False
    if veto(read_marks(one), read_marks(other)) is not None:
        return False
    vectors = await embedder.embed((one, other))
    return float(vectors[0] @ vectors[1]) >= BAR


def _plain(text: str) -> str:
    folded = unicodedata.normalize("NFKC", text).casefold()
    # Signs within numbers and words (3.5, -1, C++) are kept: only what ends a clause is nothing.
    return " ".join(word.rstrip(".,;:!?。，；：！？、") for word in folded.split())
