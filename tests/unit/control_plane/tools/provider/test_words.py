"""Text and vectors come from the digest alone."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from control_plane.tools.provider.words import WORDS, count_tokens, digest, fraction, tokens, vector


def test_a_byte_picks_a_word() -> None:
    """There are 64 words, all different, so six bits of a byte choose evenly."""
    assert len(set(WORDS)) == len(WORDS) == 64


@given(st.binary(max_size=20), st.integers(0, 300), st.integers(0, 300))
def test_a_longer_text_begins_with_the_shorter(seed: bytes, one: int, other: int) -> None:
    """Cutting an answer by max_tokens gives the beginning of the whole answer."""
    short, long = sorted((one, other))
    assert len(tokens(seed, long)) == long
    assert tokens(seed, long)[:short] == tokens(seed, short)


def test_parts_of_a_digest_do_not_run_together() -> None:
    """Where one part ends and the next begins counts."""
    assert digest(b"ab", b"c") != digest(b"a", b"bc")


@given(st.binary(min_size=6, max_size=16))
def test_fraction(seed: bytes) -> None:
    """A fraction is in [0, 1)."""
    assert 0 <= fraction(seed) < 1


@pytest.mark.parametrize(
    ("text", "count"),
    [("", 0), ("a", 1), ("abcd", 1), ("abcde", 2), ("你好", 2), ("你好ab", 3), ("naïve", 2)],
)
def test_count_tokens(text: str, count: int) -> None:
    """Four Latin characters are a token, and so is one of any other script."""
    assert count_tokens(text) == count


@given(st.text(min_size=1, max_size=20), st.integers(1, 64))
def test_vector(text: str, dimensions: int) -> None:
    """A vector has its length, norm 1, and is the same each time."""
    values = vector(0, "m", text, dimensions)
    assert len(values) == dimensions
    assert math.isclose(math.sqrt(sum(value * value for value in values)), 1, rel_tol=1e-5)
    assert values == vector(0, "m", text, dimensions)


def test_vectors_differ() -> None:
    """Text, model and seed each change the vector."""
    found = {vector(*of, 8).tobytes() for of in ((0, "m", "a"), (0, "m", "b"), (0, "n", "a"), (1, "m", "a"))}
    assert len(found) == 4
