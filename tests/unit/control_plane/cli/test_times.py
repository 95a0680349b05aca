"""Points in time."""

from datetime import UTC, datetime

import pytest
import typer

from control_plane.cli.times import moment

NOW = datetime(2026, 1, 31, 8, 0, 0, 500, UTC)


@pytest.mark.parametrize(
    ("text", "when"),
    [
        ("90s", "2026-01-31T08:01:30Z"),
        ("24h", "2026-02-01T08:00:00Z"),
        ("30d", "2026-03-02T08:00:00Z"),
        ("2026-02-01T00:00:00Z", "2026-02-01T00:00:00Z"),
        ("2026-02-01T00:00:00+08:00", "2026-01-31T16:00:00Z"),
        ("2026-02-01", "2026-02-01T00:00:00Z"),
    ],
)
def test_a_time_is_written_in_utc(text: str, when: str) -> None:
    """From now, or as it is; without a zone it is UTC."""
    assert moment(text, NOW) == when


@pytest.mark.parametrize("text", ["", "soon", "0d", "-1h", "1w", "9999999999d", "2026-13-01"])
def test_what_is_no_time_is_wrong_usage(text: str) -> None:
    """With what to write."""
    with pytest.raises(typer.BadParameter, match="is no time"):
        moment(text, NOW)


def test_a_time_that_is_over_is_wrong_usage() -> None:
    """A key that never was good helps nobody."""
    with pytest.raises(typer.BadParameter, match="is over already"):
        moment("2026-01-31T07:59:59Z", NOW)
