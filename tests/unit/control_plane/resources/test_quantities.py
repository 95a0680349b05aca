"""Durations and sizes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from control_plane.resources.quantities import (
    duration_text,
    parse_duration_ms,
    parse_size_bytes,
    size_text,
)


@pytest.mark.parametrize(
    ("text", "expected_ms"),
    [
        ("200ms", 200),
        ("5s", 5_000),
        ("1.5s", 1_500),
        ("10m", 600_000),
        ("24h", 86_400_000),
        ("1h30m", 5_400_000),
    ],
)
def test_a_duration_is_read_in_milliseconds(text: str, expected_ms: int) -> None:
    """Each unit, fractions and sums are understood."""
    assert parse_duration_ms(text) == expected_ms


@pytest.mark.parametrize(
    "value", ["", "5", 5, "5 s", "-5s", "5S", "s", "1d", "1e3s", None, True, "9999999h", "٥s"]
)
def test_what_is_no_duration_is_refused(value: object) -> None:
    """Numbers without a unit, other units, signs, blanks and more than ten years are refused."""
    with pytest.raises(ValueError, match=r"duration|ten years"):
        parse_duration_ms(value)


@given(st.integers(0, 10_000_000))
def test_whole_milliseconds_survive(milliseconds: int) -> None:
    """Writing milliseconds and reading them back changes nothing."""
    assert parse_duration_ms(f"{milliseconds}ms") == milliseconds


@pytest.mark.parametrize(
    ("value", "expected_bytes"),
    [
        ("64MiB", 64 << 20),
        ("1GiB", 1 << 30),
        ("1.5KiB", 1_536),
        ("10MB", 10_000_000),
        ("7B", 7),
        (4096, 4096),
    ],
)
def test_a_size_is_read_in_bytes(value: object, expected_bytes: int) -> None:
    """Binary and decimal units, and bare bytes, are understood."""
    assert parse_size_bytes(value) == expected_bytes


@pytest.mark.parametrize("value", ["64", "64 MiB", "64mib", "-1B", True, None, 1.5])
def test_what_is_no_size_is_refused(value: object) -> None:
    """Text without a unit, and other types, are refused."""
    with pytest.raises(ValueError, match="size"):
        parse_size_bytes(value)


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [(0, "0s"), (1, "1ms"), (1_500, "1500ms"), (90_000, "90s"), (1_800_000, "30m"), (86_400_000, "24h")],
)
def test_a_duration_is_written_in_the_largest_unit_that_fits(milliseconds: int, text: str) -> None:
    """What is written is read as the same."""
    assert duration_text(milliseconds) == text
    assert parse_duration_ms(text) == milliseconds


@pytest.mark.parametrize(
    ("size_bytes", "text"),
    [(1, "1B"), (1_024, "1KiB"), (1_025, "1025B"), (64 << 20, "64MiB"), (3 << 30, "3GiB")],
)
def test_a_size_is_written_in_the_largest_unit_that_fits(size_bytes: int, text: str) -> None:
    """What is written is read as the same."""
    assert size_text(size_bytes) == text
    assert parse_size_bytes(text) == size_bytes
