"""Options that several commands share."""

from __future__ import annotations

import pytest
import typer

from control_plane.cli.options import cache_database_url, redis_url


@pytest.mark.parametrize("url", ["redis://h:6379/0", "rediss://u:p@h", "unix:///run/redis.sock"])
def test_addresses_of_redis_are_taken_as_they_are(url: str) -> None:
    """The three ways that redis-py knows."""
    assert redis_url(url) == url


@pytest.mark.parametrize("url", [None, ""])
def test_an_empty_address_is_none(url: str | None) -> None:
    """A variable that is set to nothing is as good as not set."""
    assert redis_url(url) is None


@pytest.mark.parametrize(
    "url", ["http://u:top-secret@h", "redis://:top-secret/a@h:6379/0", "redis://u:top-secret@h/not-a-number"]
)
def test_anything_else_is_wrong_usage_and_not_repeated(url: str) -> None:
    """It may hold a password."""
    with pytest.raises(typer.BadParameter) as refused:
        redis_url(url)
    assert "top-secret" not in str(refused.value)


def test_the_caches_database_is_one_of_two() -> None:
    """PostgreSQL or a SQLite file; anything else is refused without a word of it."""
    for url in ("postgresql://u:p@h/d", "sqlite:////var/answers.db"):
        assert cache_database_url(url) == url
    assert cache_database_url("") is None
    with pytest.raises(typer.BadParameter) as refused:
        cache_database_url("mysql://u:top-secret@h/d")
    assert "top-secret" not in str(refused.value)
