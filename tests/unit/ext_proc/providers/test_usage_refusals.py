"""Who is not to be asked for a stream's usage."""

from __future__ import annotations

from dataclasses import replace

from ext_proc.contract.snapshot import Backend
from ext_proc.providers.usage_refusals import BACKENDS_AT_MOST, REMEMBERED_S, UsageRefusals

BACKEND = Backend("b", "http://127.0.0.1:1/v1")


def test_a_refusal_is_remembered_for_an_hour() -> None:
    """Of that Backend alone, and as it is now."""
    now = 100.0
    refusals = UsageRefusals(lambda: now)
    assert not refusals.knows(BACKEND)
    refusals.note(BACKEND)
    assert refusals.knows(replace(BACKEND))
    assert not refusals.knows(replace(BACKEND, name="c"))
    assert not refusals.knows(replace(BACKEND, api_version="2026-01-01"))
    now += REMEMBERED_S
    assert not refusals.knows(BACKEND)


def test_only_so_many_are_remembered() -> None:
    """Policy may change a Backend as often as it likes."""
    refusals = UsageRefusals(lambda: 0.0)
    many = [replace(BACKEND, name=f"b{number}") for number in range(BACKENDS_AT_MOST + 1)]
    for backend in many:
        refusals.note(backend)
    assert [refusals.knows(backend) for backend in (many[0], many[-1])] == [False, True]
