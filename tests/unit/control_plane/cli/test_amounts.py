"""Amounts as people read them."""

import pytest

from control_plane.cli.amounts import grouped, number, share, size, span


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0, "0s"),
        (0.007, "7ms"),
        (12.4, "12s"),
        (119, "119s"),
        (120, "2m"),
        (7_200, "2h"),
        (86_400, "24h"),
        (172_800, "2d"),
    ],
)
def test_a_span_has_one_unit(seconds: float, shown: str) -> None:
    """The largest of which there are two."""
    assert span(seconds) == shown


def test_other_amounts() -> None:
    """Binary sizes, shares in percent, thousands apart."""
    assert [size(count) for count in (0, 812, 82_000, 64 << 20, 3 << 30)] == [
        "0 B",
        "812 B",
        "80.1 KiB",
        "64.0 MiB",
        "3.0 GiB",
    ]
    assert (share(0.3984), share(1), share(None)) == ("39.8%", "100.0%", "")
    assert grouped(1_234_567) == "1,234,567"


@pytest.mark.parametrize("strange", [None, "x", [], {}, True])
def test_what_is_no_number_is_none(strange: object) -> None:
    """An answer may be anybody's."""
    assert number(strange) == 0.0
    assert (span(strange), size(strange), grouped(strange)) == ("0s", "0 B", "0")
