"""Texts to vectors: what is asked of whoever makes them, and what was made already."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

if TYPE_CHECKING:
    from numpy import float32
    from numpy.typing import NDArray

Vectors: TypeAlias = "NDArray[float32]"
"""Named without being imported: numpy is there for those only who use it."""

Known: TypeAlias = OrderedDict[tuple[str, str], Vectors]
"""Vectors by whose they are and by their text."""
REMEMBERED: Final = 2_048


class EmbeddingFailed(Exception):
    """There are no vectors: whoever makes them is not there, failed, or said something else."""


class Embedder(Protocol):
    """Makes vectors of texts. Those of embedders with one `name` can be compared."""

    name: str

    async def embed(self, texts: Sequence[str]) -> Vectors:
        """Return one row of unit length for each text, n × d.

        Raises:
            EmbeddingFailed: there are none.
        """
        ...


class Remembering:
    """An embedder that makes the vector of a text once, as long as it is among the last ones asked for.

    Args:
        embedder: who makes them.
        known: the vectors that were made, the one asked for last at the end; shared by embedders of one name.
        whose: who asks. Nobody can tell by the time it takes what somebody else has asked.
    """

    def __init__(self, embedder: Embedder, known: Known, whose: str = "") -> None:
        self._embedder = embedder
        self._known = known
        self._whose = whose
        self.name = embedder.name

    async def vector(self, text: str) -> Vectors:
        """Return the vector of one text.

        Raises:
            EmbeddingFailed: there is none.
        """
        key = (self._whose, text)
        vector = self._known.get(key)
        if vector is None:
            vector = (await self._embedder.embed((text,)))[0]
            self._known[key] = vector
            if len(self._known) > REMEMBERED:
                self._known.popitem(last=False)
        else:
            self._known.move_to_end(key)
        return vector
