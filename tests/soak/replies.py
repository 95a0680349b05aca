"""What the provider of the soak answers, worked out from the question alone, here and where it is checked."""

from __future__ import annotations

import re
import zlib
from collections.abc import Sequence
from hashlib import sha256
from typing import Any, Final

QUESTION: Final = re.compile(r"\bq-[a-z0-9]+-\d+\b")
LONG_PIECES: Final = 400
WIDTH: Final = 8


def names_in(text: str) -> list[str]:
    """Return the names of the questions in a text, in order."""
    return QUESTION.findall(text)


def length_of(name: str) -> int:
    """Return how many words follow the name in the answer to a question."""
    return LONG_PIECES if name.startswith("q-long") else 4 + zlib.crc32(name.encode()) % 24


def pieces_of(name: str, own: Sequence[str]) -> list[str]:
    """Return the answer to the question `name`, in the tokens that it is streamed in.

    `own` are all questions of the conversation that went up, this one last.
    """
    words = [f" w{number}" for number in range(length_of(name))]
    return [f"re:{name}", f" own:{','.join(own)}", *words, " end"]


def conversation(messages: Sequence[dict[str, Any]]) -> tuple[str, list[str]]:
    """Return the last question of a conversation and all of them.

    Raises:
        ValueError: a question has another one's answer behind it, or there is no question.
    """
    own: list[str] = []
    for message in messages:
        found = names_in(str(message.get("content")))
        if message.get("role") == "user" and found:
            own.append(found[0])
        elif message.get("role") == "assistant" and (not own or not found or found[0] != own[-1]):
            raise ValueError(f"{found[:1]} stands behind {own[-1:]}")
    if not own:
        raise ValueError("no question")
    return own[-1], own


def vector_of(text: str) -> list[float]:
    """Return the embedding of a text."""
    return [byte / 256 for byte in sha256(text.encode()).digest()[:WIDTH]]


def prompt_tokens(messages: Sequence[dict[str, Any]]) -> int:
    """Return what a conversation costs to read."""
    return sum(len(str(message.get("content")).split()) + 3 for message in messages)
