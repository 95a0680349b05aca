"""Entries are bounded, and what is forgotten is gone."""

from __future__ import annotations

from collections.abc import AsyncIterator

import numpy as np
import pytest

from ext_proc.semantic.embedding import Vectors
from ext_proc.semantic.marks import read_marks
from ext_proc.semantic.partitions import Partitions

HERE, THERE = (b"here", "e"), (b"there", "e")
MARKS = read_marks("hello")


def vector(*values: float) -> Vectors:
    """Return a vector as long as 1."""
    raw = np.array(values, np.float32)
    made: Vectors = raw / np.linalg.norm(raw)
    return made


@pytest.fixture
async def partitions() -> AsyncIterator[Partitions]:
    """Room for three entries in two partitions."""
    made = Partitions(max_entries=3, max_partitions=2)
    yield made
    made.close()


async def found(partitions: Partitions, place: tuple[bytes, str] = HERE) -> list[bytes]:
    """Return the keys at `place`, in their order."""
    return sorted(entry.key for entry, _ in await partitions.nearest(place, vector(1, 0), 9))


async def test_the_nearest_comes_first(partitions: Partitions) -> None:
    """With its similarity."""
    partitions.put(HERE, b"a", MARKS, vector(1, 1))
    partitions.put(HERE, b"b", MARKS, vector(1, 0.1))
    near = await partitions.nearest(HERE, vector(1, 0), 9)
    assert [entry.key for entry, _ in near] == [b"b", b"a"]
    assert near[1][1] == pytest.approx(0.707, abs=1e-3)


async def test_partitions_are_parted(partitions: Partitions) -> None:
    """Nothing of one is found in another."""
    partitions.put(HERE, b"a", MARKS, vector(1, 0))
    assert await found(partitions, THERE) == []


async def test_the_oldest_goes_first(partitions: Partitions) -> None:
    """One that was of use stays."""
    for key in (b"a", b"b", b"c"):
        partitions.put(HERE, key, MARKS, vector(1, 0))
    partitions.used(HERE, b"a")
    partitions.put(HERE, b"d", MARKS, vector(1, 0))
    assert await found(partitions) == [b"a", b"c", b"d"]
    assert len(partitions) == 3


async def test_the_partition_unused_for_longest_makes_room(partitions: Partitions) -> None:
    """Entry by entry; beyond the number of partitions as a whole."""
    for key in (b"a", b"b"):
        partitions.put(HERE, key, MARKS, vector(1, 0))
    for key in (b"c", b"d"):
        partitions.put(THERE, key, MARKS, vector(1, 0))
    assert await found(partitions) == [b"b"]
    partitions.put((b"third", "e"), b"e", MARKS, vector(1, 0))
    assert partitions.get(THERE) is None
    assert len(partitions) == 2


async def test_a_removed_entry_is_gone(partitions: Partitions) -> None:
    """What the partition has learned stays."""
    partitions.put(HERE, b"a", MARKS, vector(1, 0))
    partitions.remove(HERE, b"a")
    partitions.remove(HERE, b"never there")
    assert await found(partitions) == []
    assert partitions.get(HERE) is not None
    assert len(partitions) == 0


async def test_a_question_that_comes_again_keeps_its_record(partitions: Partitions) -> None:
    """Its answer is new, its neighbours are not."""
    partitions.put(HERE, b"a", MARKS, vector(1, 0))
    (entry, _), *_ = await partitions.nearest(HERE, vector(1, 0), 1)
    partitions.put(HERE, b"a", MARKS, vector(1, 0))
    assert (await partitions.nearest(HERE, vector(1, 0), 1))[0][0] is entry


async def test_other_dimensions_begin_anew(partitions: Partitions) -> None:
    """A Model may change behind its name; old vectors say nothing of new ones."""
    partitions.put(HERE, b"a", MARKS, vector(1, 0))
    partitions.put(HERE, b"b", MARKS, vector(1, 0, 0))
    near = await partitions.nearest(HERE, vector(1, 0, 0), 9)
    assert [entry.key for entry, _ in near] == [b"b"]
