"""Options that several commands share."""

from __future__ import annotations

import pytest
import typer

from control_plane.cli.options import redis_url


@pytest.mark.parametrize("url", ["redis://h:6379/0", "rediss://u:p@h", "unix:///run/redis.sock"])
def test_addresses_of_redis_are_taken_as_they_are(url: str) -> None:
    """The three ways that redis-py knows."""
    assert redis_url(url) == url


@pytest.mark.parametrize("url", [None, ""])
def test_an_empty_address_is_none(url: str | None) -> None:
    """A variable that is set to nothing is as good as not set."""
    assert redis_url(url) is None


def test_anything_else_is_wrong_usage_and_not_repeated() -> None:
    """It may hold a password."""
    with pytest.raises(typer.BadParameter) as refused:
        redis_url("http://u:top-secret@h")
    assert "top-secret" not in str(refused.value)
