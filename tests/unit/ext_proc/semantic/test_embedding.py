"""Vectors are made once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from ext_proc.semantic.embedding import REMEMBERED, EmbeddingFailed, Known, Remembering, Vectors


class Maker:
    """Makes vectors of texts, and remembers for which."""

    name = "maker"

    def __init__(self) -> None:
        self.made: list[str] = []

    async def embed(self, texts: Sequence[str]) -> Vectors:
        """Return the same vector for each."""
        self.made += texts
        if "broken" in texts:
            raise EmbeddingFailed("broken")
        return np.ones((len(texts), 1), np.float32)


async def test_a_text_is_made_once() -> None:
    """Also by another embedder of the name, which shares what is known."""
    maker, known = Maker(), Known()
    for text in ("a", "b", "a"):
        await Remembering(maker, known).vector(text)
    assert maker.made == ["a", "b"]
    assert Remembering(maker, known).name == "maker"


async def test_nobody_profits_from_what_another_has_asked() -> None:
    """Else the time that it takes would tell."""
    maker, known = Maker(), Known()
    for whose in ("one", "other"):
        await Remembering(maker, known, whose).vector("a")
    assert maker.made == ["a", "a"]


async def test_the_ones_unused_for_longest_are_forgotten() -> None:
    """What is known is bounded."""
    maker, known = Maker(), Known()
    embedder = Remembering(maker, known)
    await embedder.vector("first")
    await embedder.vector("second")
    for number in range(REMEMBERED - 1):
        await embedder.vector("first")
        await embedder.vector(str(number))
    assert len(known) == REMEMBERED
    assert ("", "first") in known
    assert ("", "second") not in known


async def test_a_failure_is_not_remembered() -> None:
    """The next one asks again."""
    embedder = Remembering(Maker(), Known())
    for _ in range(2):
        with pytest.raises(EmbeddingFailed):
            await embedder.vector("broken")
