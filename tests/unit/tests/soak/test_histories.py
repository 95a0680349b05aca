"""A few of the histories that `make soak` tries by the hundred thousand."""

from __future__ import annotations

import pytest

from ext_proc.limits.book import MemoryBook
from tests.soak.histories import policy, try_one

HISTORIES = 20


def test_every_exchange_ends_and_lets_go() -> None:
    """One right answer each; nothing is reserved, open or parked when all is over."""
    snapshot = policy()
    amiss = {number: found for number in range(HISTORIES) if (found := try_one(snapshot, number).amiss)}
    assert amiss == {}


def test_a_history_tells_of_what_is_not_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    """A book that keeps places is found out."""
    monkeypatch.setattr(MemoryBook, "release", lambda *_: None)
    snapshot = policy()
    amiss = [line for number in range(HISTORIES) for line in try_one(snapshot, number).amiss]
    assert any("places of accounts are held" in line for line in amiss)
