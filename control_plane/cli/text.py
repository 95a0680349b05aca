"""Text for a terminal (pure): nothing that a document, a server or a log holds can drive it."""

from __future__ import annotations

from collections.abc import Sequence


def printable(text: str) -> str:
    """Return `text` with control characters escaped; tabs stay."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() or char == "\t" else repr(char)[1:-1] for char in text)


def counted(count: int, noun: str) -> str:
    """Return `1 document`, `2 documents`; for nouns whose plural ends in s."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def enumerated(items: Sequence[str]) -> str:
    """Return `a`, `a and b`, `a, b and c`."""
    return " and ".join(part for part in (", ".join(items[:-1]), items[-1]) if part) if items else ""
