"""The nearest ones are found, in small sets and in large ones."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ext_proc.semantic.index import LOOKED_AT_CLOSELY, Vector, VectorIndex

DIMENSIONS = 96


def vectors(count: int, number: int = 1) -> Vector:
    """Return vectors of unit length that all point much the same way, as embeddings do."""
    draw = np.random.default_rng(number)
    raw = draw.normal(size=(count, DIMENSIONS)) * 0.3 + draw.normal(size=DIMENSIONS)
    made: Vector = (raw / np.linalg.norm(raw, axis=1, keepdims=True)).astype(np.float32)
    return made


def key(number: int) -> bytes:
    """Return the key of the vector `number`."""
    return number.to_bytes(4)


def filled(held: Vector) -> VectorIndex:
    """Return an index of all of them."""
    index = VectorIndex(DIMENSIONS)
    for number, vector in enumerate(held):
        index.put(key(number), vector)
    return index


@pytest.mark.parametrize("count", [1, 5, 100, LOOKED_AT_CLOSELY, 3000])
def test_a_vector_finds_itself(count: int) -> None:
    """First, and as alike as can be."""
    held = vectors(count)
    index = filled(held)
    assert len(index) == count
    for number in range(0, count, max(1, count // 20)):
        (first, similarity), *_ = index.nearest(held[number], 3)
        assert first == key(number)
        assert similarity == pytest.approx(1, abs=2e-3)


def test_a_large_set_gives_what_looking_at_all_gives() -> None:
    """The nearest of 3000 is found for nearly every vector that is close to some."""
    held = vectors(3000)
    index, draw = filled(held), np.random.default_rng(2)
    found = 0
    for number in range(100):
        near = held[number] + draw.normal(size=DIMENSIONS).astype(np.float32) * 0.02
        near /= np.linalg.norm(near)
        found += index.nearest(near, 8)[0][0] == key(int(np.argmax(held @ near)))
    assert found >= 97


def test_an_empty_set_has_nothing() -> None:
    """No matter how many are wanted."""
    assert VectorIndex(DIMENSIONS).nearest(vectors(1)[0], 5) == []


def test_another_vector_takes_the_place_of_the_first() -> None:
    """Under one key there is one."""
    held = vectors(3)
    index = filled(held[:2])
    index.put(key(0), held[2])
    assert len(index) == 2
    assert index.nearest(held[2], 1)[0][0] == key(0)


def test_dimensions_need_not_fill_words() -> None:
    """The bits beyond them say nothing."""
    index = VectorIndex(3)
    axes = np.eye(3, dtype=np.float32)
    for number, vector in enumerate(axes):
        index.put(key(number), vector)
    assert [index.nearest(vector, 1)[0][0] for vector in axes] == [key(0), key(1), key(2)]


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.booleans(), st.integers(0, 9)), max_size=60))
def test_what_is_removed_is_gone(steps: list[tuple[bool, int]]) -> None:
    """Whatever the order: the index holds just what was put and not removed."""
    held, index, expected = vectors(10), VectorIndex(DIMENSIONS), set()
    for put, number in steps:
        if put:
            index.put(key(number), held[number])
            expected.add(key(number))
        else:
            assert index.remove(key(number)) == (key(number) in expected)
            expected.discard(key(number))
    assert {found for found, _ in index.nearest(held[0], 20)} == expected
    assert all(index.nearest(held[int.from_bytes(one)], 1)[0][0] == one for one in expected)
    assert all(one in index for one in expected)
