"""What is found in a text, and where."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ext_proc.contract.entities import Entity

Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing to hide: `text[start:end]`, in code points."""

    entity: Entity
    start: int
    end: int


def blanked(text: str, spans: Iterable[Span]) -> str:
    """Return `text` with the spans, which are in order, blanked out, so that no other pattern reads them."""
    parts: list[str] = []
    at = 0
    for start, end in spans:
        parts += (text[at:start], "\0" * (end - start))
        at = end
    if not parts:
        return text
    parts.append(text[at:])
    return "".join(parts)
