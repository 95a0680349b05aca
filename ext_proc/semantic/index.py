"""The nearest vectors of a set that changes: exact where it is small, in two steps where it is large.

Each vector is kept twice: its signs, one bit a dimension, and itself in half precision. A large set is looked
through by its signs first; of those nearest by the number of equal signs the vectors are compared. Signs are
taken around the set's own mean: embeddings tend to point all the same way, and its signs would say nothing.

No threads, no time: `partitions` sees to it that one thread at a time comes here.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float32]

LOOKED_AT_CLOSELY: Final = 256
"""Of how many the vectors are compared. Smaller sets are compared as a whole."""
_FIRST_ROOM: Final = 64
_MEAN_IS_KNOWN: Final = 4_096
_BITS: Final = 64


class VectorIndex:
    """Vectors of unit length by their keys."""

    def __init__(self, dimensions: int) -> None:
        self.dimensions = dimensions
        self._keys: list[bytes] = []
        self._rows: dict[bytes, int] = {}
        self._words = -(-dimensions // _BITS)
        self._vectors = np.empty((_FIRST_ROOM, dimensions), np.float16)
        self._signs = np.zeros((self._words, _FIRST_ROOM), np.uint64)
        self._mean = np.zeros(dimensions, np.float32)

    def __len__(self) -> int:
        return len(self._keys)

    def __contains__(self, key: bytes) -> bool:
        return key in self._rows

    def put(self, key: bytes, vector: Vector) -> None:
        """Keep `vector` (`dimensions` long, unit length) under `key`, in the place of what was there."""
        row = self._rows.get(key)
        if row is None:
            row = len(self._keys)
            if row == len(self._vectors):
                self._grow()
            self._keys.append(key)
            self._rows[key] = row
        self._vectors[row] = vector
        self._signs[:, row] = self._signs_of(vector[np.newaxis])[:, 0]

    def remove(self, key: bytes) -> bool:
        """Forget what is under `key`; return whether there was anything. The last row takes its place."""
        row = self._rows.pop(key, None)
        if row is None:
            return False
        last = self._keys.pop()
        if last != key:
            self._keys[row] = last
            self._rows[last] = row
            self._vectors[row] = self._vectors[len(self._keys)]
            self._signs[:, row] = self._signs[:, len(self._keys)]
        return True

    def nearest(self, vector: Vector, count: int) -> list[tuple[bytes, float]]:
        """Return at most `count` keys with their similarity to `vector` (cosine), the nearest first."""
        size = len(self._keys)
        if not size:
            return []
        rows = np.arange(size) if size <= LOOKED_AT_CLOSELY else self._by_signs(vector, size)
        similarities = self._vectors[rows].astype(np.float32) @ vector
        best = np.argsort(-similarities)[:count]
        return [(self._keys[rows[place]], float(similarities[place])) for place in best]

    def _by_signs(self, vector: Vector, size: int) -> NDArray[np.intp]:
        asked = self._signs_of(vector[np.newaxis])[:, 0]
        different = np.zeros(size, np.uint16)
        for word in range(self._words):
            different += np.bitwise_count(self._signs[word, :size] ^ asked[word])
        # Counted, not sorted: it takes a third of the time.
        reached = np.cumsum(np.bincount(different, minlength=self.dimensions + 1))
        limit = np.searchsorted(reached, LOOKED_AT_CLOSELY)
        return np.flatnonzero(different <= limit)[: 4 * LOOKED_AT_CLOSELY]

    def _signs_of(self, vectors: Vector) -> NDArray[np.uint64]:
        bits = np.zeros((len(vectors), self._words * _BITS), np.bool_)
        bits[:, : self.dimensions] = vectors > self._mean
        return np.packbits(bits, axis=1).view(np.uint64).T

    def _grow(self) -> None:
        """Make room for twice as many. While it is small, take the signs anew around a better mean."""
        size = len(self._keys)
        self._vectors = np.concatenate([self._vectors, np.empty_like(self._vectors)])
        self._signs = np.concatenate([self._signs, np.zeros_like(self._signs)], axis=1)
        if size <= _MEAN_IS_KNOWN:
            held = self._vectors[:size].astype(np.float32)
            self._mean = held.mean(axis=0)
            self._signs[:, :size] = self._signs_of(held)
