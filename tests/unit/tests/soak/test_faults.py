"""The order of faults."""

from __future__ import annotations

import random
from collections import Counter
from itertools import islice
from types import SimpleNamespace
from typing import Any

from tests.soak.faults import ordered, troubles

LAB: Any = SimpleNamespace(can_fill=True, clock=SimpleNamespace(works=True))


def order(number: int, count: int) -> list[str]:
    """Return the names of so many faults."""
    return [one.name for one in islice(ordered(troubles(LAB), random.Random(number)), count)]


def test_each_fault_is_done_before_any_is_done_again() -> None:
    """In an order that its number brings back."""
    kinds = len(troubles(LAB))
    names = order(1, 2 * kinds)
    assert set(Counter(names[:kinds]).values()) == {1}
    assert set(Counter(names).values()) == {2}
    assert names == order(1, 2 * kinds) != order(2, 2 * kinds)


def test_what_cannot_be_done_here_is_left_out() -> None:
    """Without a disk of its own none is filled, without a compiler no clock is stepped."""
    poor: Any = SimpleNamespace(can_fill=False, clock=SimpleNamespace(works=False))
    names = {one.name for one in troubles(poor)}
    assert {one.name for one in troubles(LAB)} - names == {"disk full", "clock put back", "clock put forward"}
