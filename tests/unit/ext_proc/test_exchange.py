"""What can be said of an exchange."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ext_proc.candidates import Candidate
from ext_proc.exchange import CacheStatus, Exchange, describe, stamps
from tests.unit.ext_proc.exchanges import HELLO, exchange, head, snapshot


def test_the_access_log_learns_names_of_ours_only() -> None:
    """A model that nobody configured is no label."""
    opened = exchange(document={**HELLO, "model": "invented", "stream": True})
    opened.asked_model = "invented"
    unknown = {"operation": "chat", "cache": "bypass", "stream": True}
    assert dict(describe(opened)) == {**unknown, "shown_model": "invented"}
    for unreadable in ("モデル", "a\x1bb", "x" * 300):
        opened.asked_model = unreadable
        assert dict(describe(opened)) == unknown
    opened.model = snapshot().models["m"]
    opened.version = opened.model.versions[0]
    opened.backend = snapshot().backends["b"]
    opened.tier = "gold"
    opened.cache_status = CacheStatus.MISS
    assert dict(describe(opened)) == {
        "operation": "chat",
        "cache": "miss",
        "stream": True,
        "model": "m",
        "shown_model": "m",
        "version": "v1",
        "backend": "b",
        "tier": "gold",
    }


def test_empty_stamps_are_left_out() -> None:
    """No header without a value."""
    assert stamps("", "", "bypass") == (("x-outrigger-cache", "bypass"),)


@pytest.mark.parametrize(("number", "name"), [(None, None), (0, "b"), (1, "c"), (7, None)])
def test_who_has_refused_a_usage_is_known_by_its_number(number: int | None, name: str | None) -> None:
    """Among the candidates, or the one that there is."""
    opened = exchange()
    opened.backend = opened.loaded.default_backend
    assert opened.backend is not None
    if name != "b":
        other = replace(opened.backend, name="c")
        opened.candidates = (Candidate(None, None, opened.backend), Candidate(None, None, other))
    opened.hear_of_usage(number)
    assert (opened.usage_refused_by and opened.usage_refused_by.name) == name


def test_the_parsed_request_is_there_only_after_the_body() -> None:
    """Asking earlier is a fault of the stage, said at once."""
    opened = exchange()
    assert opened.parsed.model == "m"
    with pytest.raises(RuntimeError, match="has not come"):
        _ = Exchange(head(), opened.loaded, opened.classified).parsed
