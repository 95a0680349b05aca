"""Sizes and windows that are learned."""

from __future__ import annotations

import random

import pytest

from ext_proc.adaptation import Adaptation


def provider(size: int, knee: int) -> float:
    """Return how long a batch takes, in seconds: much longer beyond the knee."""
    return 0.1 + 0.002 * size + (0.05 * (size - knee) if size > knee else 0)


@pytest.mark.parametrize("knee", [5, 20, 40])
def test_the_size_settles_around_the_knee(knee: int) -> None:
    """Toward the goal from below, back from above it."""
    adaptation = Adaptation(50, 0.2, 0.25)
    noise, sizes = random.Random(1), []
    for _ in range(300):
        size = adaptation.size
        adaptation.answered(size, provider(size, knee) * noise.uniform(0.95, 1.05))
        sizes.append(size)
    settled = sizes[100:]
    assert knee / 2 <= sum(settled) / len(settled) <= knee + 5
    assert all(1 <= size <= 50 for size in sizes)


def test_without_a_goal_the_quickest_call_sets_it() -> None:
    """Twice as long is too long."""
    adaptation = Adaptation(8, 0.2, None)
    adaptation.answered(1, 0.1)
    before = adaptation.size
    adaptation.answered(before, 0.15)
    assert adaptation.size == before + 1
    adaptation.answered(before, 0.3)
    assert adaptation.size == (before + 1) // 2


def test_a_small_batch_says_nothing_of_a_large_one() -> None:
    """Only a full one makes room for more."""
    adaptation = Adaptation(40, 0.2, 1.0)
    adaptation.answered(1, 0.1)
    assert adaptation.size == 10


def test_the_window_follows_the_arrivals() -> None:
    """As long as the size takes to come, within the policy's bound; nobody waits where nobody comes."""
    adaptation = Adaptation(40, 0.2, 1.0)
    assert adaptation.window_s(0.0) == 0.0
    for number in range(2000):
        adaptation.arrived(number / 1000, 1)
    assert 0.005 < adaptation.window_s(2.0) < 0.02
    assert adaptation.window_s(2.5) > adaptation.window_s(2.0)
    assert adaptation.window_s(60.0) == 0.0
