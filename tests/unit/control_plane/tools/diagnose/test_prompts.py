"""Prompts nobody has seen."""

import random

import pytest

from control_plane.tools.diagnose import prompts
from control_plane.tools.provider.words import count_tokens


@pytest.mark.parametrize("tokens", [64, 1000, 4000])
def test_length(tokens: int) -> None:
    """A long prompt is about as many tokens as asked."""
    text = prompts.long(tokens, random.Random(2))
    assert count_tokens(text) == pytest.approx(tokens, rel=0.1)
    assert prompts.estimated_tokens(text) == pytest.approx(tokens, rel=0.1)


def test_no_two_begin_alike() -> None:
    """No cache of prefixes has one."""
    randomness = random.Random(2)
    made = [
        make
        for _ in range(5)
        for make in (prompts.short(randomness), prompts.telling(randomness), prompts.long(64, randomness))
    ]
    assert len({text[:8] for text in made}) == len(made)
