"""Who is shed first."""

from __future__ import annotations

import pytest

from ext_proc.contract.snapshot import Limits
from ext_proc.limits.book import MemoryBook
from ext_proc.limits.claims import Account, Claim
from ext_proc.limits.priorities import share_of, shed_threshold, shedding_of

SECOND = 1_000_000
LIMIT = 100


@pytest.mark.parametrize(
    ("priority", "every", "threshold"),
    [
        (10, (0, 10), 1.0),
        (0, (0, 10), 0.8),
        (0, (0, 0), 1.0),
        (5, (), 1.0),
        (5, (0, 5, 10), 0.9),
        (0, (0, 5, 10), 0.8),
    ],
)
def test_lower_priorities_are_refused_earlier(
    priority: int, every: tuple[int, ...], threshold: float
) -> None:
    """By their rank; where all are equal nobody is."""
    assert shed_threshold(priority, every) == pytest.approx(threshold)


def test_only_whole_pieces_are_kept() -> None:
    """A small limit is all of it, and never nothing."""
    assert [share_of(limit, 0.95) for limit in (1, 10, 20, 100)] == [1, 10, 19, 95]
    assert [share_of(limit, 0.8) for limit in (1, 4, 5, 100)] == [1, 4, 4, 80]


class Traffic:
    """Two tiers on one limit; each asks as often as it is told to."""

    def __init__(self) -> None:
        self.now = 0
        self.book = MemoryBook(lambda: self.now)
        self.accounts = {
            priority: Account("model:m", "m", Limits(LIMIT), shedding_of(priority, (0, 10)))
            for priority in (0, 10)
        }
        self.passed: list[tuple[int, int]] = []

    def ask(self, priority: int, times: int) -> int:
        """Ask so often; return how many were refused."""
        refused = 0
        for _ in range(times):
            verdict = self.book.decide([Claim(self.accounts[priority])])
            if verdict.admitted is not None:
                self.passed.append((self.now, priority))
            else:
                refused += 1
        return refused

    def within_a_minute(self, priority: int) -> int:
        """Return how many of `priority` passed within the last minute."""
        return sum(who == priority and at > self.now - 60 * SECOND for at, who in self.passed)


def test_what_the_upper_leave_is_used() -> None:
    """Alone, the lowest fill 95 % of the limit in any minute."""
    traffic = Traffic()
    for _ in range(1_800):
        traffic.now += SECOND // 10
        traffic.ask(0, 2)
    assert traffic.within_a_minute(0) >= 0.95 * LIMIT - 1  # a slice of a second
    assert len(traffic.passed) >= 3 * 0.94 * LIMIT


def test_the_upper_have_their_share_from_the_first_call_on() -> None:
    """However many low ones flood: five pass at once, and a fifth of the limit within a minute."""
    traffic = Traffic()
    for _ in range(900):
        traffic.now += SECOND // 10
        traffic.ask(0, 5)
    assert traffic.ask(10, 5) == 0
    refused = 0
    for step in range(1_200):
        traffic.now += SECOND // 10
        traffic.ask(0, 5)
        if step % 40 == 0:  # fifteen a minute
            late = traffic.ask(10, 1)
            refused += late if step > 610 else 0
    assert refused == 0
    assert traffic.within_a_minute(10) == 15
    most = max(sum(end - 60 * SECOND < at <= end for at, _ in traffic.passed) for end, _ in traffic.passed)
    assert most <= LIMIT


def test_a_refusal_says_that_it_sheds() -> None:
    """Where a caller of higher priority would have been admitted."""
    traffic = Traffic()
    traffic.ask(0, 95)
    refusal = traffic.book.decide([Claim(traffic.accounts[0])]).refusal
    assert refusal is not None
    assert refusal.shed
    assert traffic.ask(10, 5) == 0
    refusal = traffic.book.decide([Claim(traffic.accounts[10])]).refusal
    assert refusal is not None
    assert not refusal.shed


def test_the_lowest_have_all_again_when_the_upper_are_gone() -> None:
    """A minute after their last call."""
    traffic = Traffic()
    traffic.ask(10, 1)
    assert traffic.ask(0, 95) == 16
    traffic.now = 61 * SECOND
    assert traffic.ask(0, 95) == 0
