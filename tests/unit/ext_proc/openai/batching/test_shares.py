"""Numbers shared out without loss."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ext_proc.openai.batching.shares import shared_out, tokens_shared_out
from ext_proc.openai.usage import Usage


@pytest.mark.parametrize(
    ("total", "weights", "parts"),
    [
        (10, [1, 1], [5, 5]),
        (10, [3, 1], [8, 2]),
        (7, [0, 0, 0], [3, 2, 2]),
        (0, [5, 5], [0, 0]),
        (1, [1, 1, 1], [1, 0, 0]),
        (5, [], []),
    ],
)
def test_parts_follow_the_weights(total: int, weights: list[int], parts: list[int]) -> None:
    """Largest remainders first; without weights equally."""
    assert shared_out(total, weights) == parts


@given(st.integers(0, 10**9), st.lists(st.integers(0, 10**6), min_size=1, max_size=60))
def test_nothing_is_lost(total: int, weights: list[int]) -> None:
    """The parts add up, and none is further than one from its exact share."""
    parts = shared_out(total, weights)
    assert sum(parts) == total
    whole = sum(weights)
    if whole:
        assert all(
            abs(part * whole - total * weight) < whole for part, weight in zip(parts, weights, strict=True)
        )


def test_tokens_of_prompt_and_completion() -> None:
    """Each by its own weights; of a usage that nobody told, nobody has a part."""
    assert tokens_shared_out(Usage(4, 6), [1, 3], [2, 1]) == [(1, 4), (3, 2)]
    assert tokens_shared_out(None, [1, 3], [2, 1]) == [None, None]
