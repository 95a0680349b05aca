"""Limits in memory: all or nothing, exactly once."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, rule

from ext_proc.contract.snapshot import Limits
from ext_proc.contract.uses import Use
from ext_proc.limits.book import SLOT_AGAIN_S, SWEEP_FROM, MemoryBook
from ext_proc.limits.claims import Account, Claim, Rate, Reservation

SECOND = 1_000_000


class Clock:
    """A time that a test sets."""

    def __init__(self) -> None:
        self.now = 0

    def __call__(self) -> int:
        """Return it."""
        return self.now


def account(
    name: str = "a",
    *,
    requests_per_minute: int | None = None,
    tokens_per_minute: int | None = None,
    concurrency: int | None = None,
) -> Account:
    """Return an account with these limits."""
    return Account(name, name, Limits(requests_per_minute, tokens_per_minute, concurrency))


async def test_a_call_is_admitted_by_all_or_by_none() -> None:
    """What the second account refuses costs the first one nothing."""
    book = MemoryBook(Clock())
    wide, narrow = account("wide", requests_per_minute=10), account("narrow", requests_per_minute=1)
    assert (await book.reserve([Claim(wide), Claim(narrow)])).admitted is not None
    verdict = await book.reserve([Claim(wide), Claim(narrow)])
    assert verdict.admitted is None
    assert verdict.refusal is not None
    assert (verdict.refusal.account, verdict.refusal.wait_s) == (narrow, 60.0)
    reading, _ = book.look([wide])
    assert reading is not None
    assert reading.used == 1


def test_the_longest_wait_is_told() -> None:
    """After it the call is admitted, whatever was in the way."""
    clock = Clock()
    book = MemoryBook(clock)
    both = account(requests_per_minute=1, tokens_per_minute=100)
    book.decide([Claim(replace(both, limits=Limits(tokens_per_minute=100)), tokens=100)])
    clock.now = 10 * SECOND
    book.decide([Claim(replace(both, limits=Limits(1)))])
    refusal = book.decide([Claim(both, tokens=1)]).refusal
    assert refusal is not None
    assert (refusal.rate, refusal.wait_s) == (Rate.REQUESTS, 60.0)
    clock.now += 60 * SECOND - 1
    assert book.decide([Claim(both, tokens=1)]).admitted is None
    clock.now += 1
    assert book.decide([Claim(both, tokens=1)]).admitted is not None


def test_places_are_given_back_once() -> None:
    """A call that has ended makes room for one other."""
    book = MemoryBook(Clock())
    narrow = account(concurrency=1)
    first = book.decide([Claim(narrow)]).admitted
    refusal = book.decide([Claim(narrow)]).refusal
    assert refusal is not None
    assert (refusal.rate, refusal.wait_s) == (Rate.CONCURRENCY, SLOT_AGAIN_S)
    assert first is not None
    book.release(first)
    book.release(first)
    assert book.decide([Claim(narrow)]).admitted is not None
    assert book.decide([Claim(narrow)]).admitted is None


def test_what_a_call_took_more_counts_too() -> None:
    """And what it took less is there again, in time."""
    clock = Clock()
    book = MemoryBook(clock)
    tokens = account(tokens_per_minute=100)
    more = book.decide([Claim(tokens, tokens=40)]).admitted
    less = book.decide([Claim(tokens, tokens=40)]).admitted
    assert more is not None
    assert less is not None
    clock.now = 5 * SECOND
    book.settle(more, 60)
    book.settle(less, 30)
    book.settle(less, 1)
    _, reading = book.look([tokens])
    assert reading is not None
    assert (reading.used, reading.remaining, reading.reset_s) == (90, 10, 60.0)


def test_a_share_of_a_limit_is_one_at_least() -> None:
    """For a processor that has to do without the others."""
    book = MemoryBook(Clock())
    ten = account(requests_per_minute=10)
    passed = [book.decide([Claim(ten)], share=0.25).admitted is not None for _ in range(5)]
    assert passed == [True, True, False, False, False]
    one = account("b", requests_per_minute=1, concurrency=1)
    assert book.decide([Claim(one)], share=0.1).admitted is not None


def test_accounts_that_nobody_uses_are_forgotten() -> None:
    """Names may come and go for months."""
    clock = Clock()
    book = MemoryBook(clock)
    for number in range(3 * SWEEP_FROM):
        clock.now += SECOND
        admitted = book.decide([Claim(account(f"a{number}", requests_per_minute=5))]).admitted
        assert admitted is not None
        book.release(admitted)
    assert len(book) <= SWEEP_FROM + 1


def test_calls_at_once_are_admitted_exactly() -> None:
    """No await comes between a look and its entry."""
    book = MemoryBook(Clock())
    hundred = account(requests_per_minute=100)

    async def storm() -> int:
        verdicts = await asyncio.gather(*(book.reserve([Claim(hundred)]) for _ in range(2_000)))
        return sum(verdict.admitted is not None for verdict in verdicts)

    assert asyncio.run(storm()) == 100


def test_a_budget_of_a_day_is_reserved_and_settled_like_a_minute() -> None:
    """Tokens and cost; the wait is exact, and a minute's limit beside it is not changed by it."""
    clock = Clock()
    book = MemoryBook(clock)
    day = Account("c", "c", Limits(tokens_per_minute=100, tokens_per_day=150, cost_per_day=0.0001))
    first = book.decide([Claim(day, tokens=90, cost=90)]).admitted
    assert first is not None
    book.settle(first, 60, 70)
    clock.now = 120 * SECOND
    refusal = book.decide([Claim(day, tokens=60, cost=60)]).refusal
    assert refusal is not None
    assert (refusal.rate, refusal.limit, refusal.wait_s) == (Rate.DAY_COST, 100, 24 * 3600 - 120)
    second = book.decide([Claim(day, tokens=60, cost=30)]).admitted
    assert second is not None
    assert book.load(day) == (0.6, 1.0)
    book.refund(second)
    assert book.load(day) == (0.0, 0.7)
    refusal = book.decide([Claim(day, tokens=100, cost=1)]).refusal
    assert refusal is not None
    assert (refusal.rate, refusal.limit) == (Rate.DAY_TOKENS, 150)
    clock.now = (24 * 3600 + 120) * SECOND
    assert book.decide([Claim(day, tokens=100, cost=100)]).admitted is not None


def test_a_limit_lowered_below_what_is_in_flight_admits_nobody_and_goes_on() -> None:
    """What goes on ends in order, also when the account's limits are other ones or gone by then."""
    book = MemoryBook(Clock())
    wide, narrow = account(concurrency=5, tokens_per_minute=100), account(concurrency=1)
    going = [book.decide([Claim(wide, tokens=10)]).admitted for _ in range(3)]
    assert book.decide([Claim(narrow)]).admitted is None
    for reservation in going:
        assert reservation is not None
        book.settle(reservation, 10**9)
        book.release(reservation)
    assert book.decide([Claim(narrow)]).admitted is not None
    _, tokens = book.look([account(tokens_per_minute=10**15)])
    assert tokens is not None
    assert tokens.used == 3 * 10**9


class Calls(RuleBasedStateMachine):
    """Calls that begin, are settled, given back and end, in any order and as often as anybody likes."""

    reservations = Bundle("reservations")

    def __init__(self) -> None:
        super().__init__()
        self.clock = Clock()
        self.book = MemoryBook(self.clock)
        self.limits = Limits(5, 50, 3)
        self.log: dict[Reservation, tuple[int, int, int]] = {}  # when, requests, tokens
        self.extra: list[tuple[int, int]] = []
        self.holding: set[Reservation] = set()

    def own(self) -> Account:
        """Return the account as it is limited now."""
        return Account("a", "a", self.limits)

    @rule(target=reservations, tokens=st.integers(1, 30))
    def begin(self, tokens: int) -> Reservation | None:
        """A call begins, if it may."""
        admitted = self.book.decide([Claim(self.own(), tokens=tokens)]).admitted
        if admitted is not None:
            self.log[admitted] = (self.clock.now, 1, tokens)
            self.holding.add(admitted)
            at_once = self.limits.concurrency
            assert at_once is not None
            assert len(self.holding) <= at_once
        return admitted

    @rule(reservation=reservations, tokens=st.integers(0, 60))
    def settle(self, reservation: Reservation | None, tokens: int) -> None:
        """It tells what it used."""
        if reservation is None:
            return
        if reservation.open:
            at, requests, reserved = self.log[reservation]
            self.log[reservation] = (at, requests, min(tokens, reserved))
            if tokens > reserved:
                self.extra.append((self.clock.now, tokens - reserved))
        self.book.settle(reservation, tokens)

    @rule(reservation=reservations)
    def refund(self, reservation: Reservation | None) -> None:
        """It failed."""
        if reservation is None:
            return
        if reservation.open:
            self.log[reservation] = (self.log[reservation][0], 0, 0)
        self.book.refund(reservation)

    @rule(reservation=reservations)
    def end(self, reservation: Reservation | None) -> None:
        """It is over."""
        if reservation is not None:
            self.book.release(reservation)
            self.holding.discard(reservation)

    @rule(seconds=st.floats(0, 70))
    def wait(self, seconds: float) -> None:
        """Time passes."""
        self.clock.now += int(seconds * SECOND)

    @rule(requests=st.integers(1, 8), tokens=st.integers(1, 80))
    def change(self, requests: int, tokens: int) -> None:
        """The limits are changed, maybe below what is used."""
        self.limits = Limits(requests, tokens, 3)

    @invariant()
    def counts_what_counts(self) -> None:
        """Nothing of the last minute is missing, nothing is kept for 61 seconds, nothing is negative."""
        requests, tokens = self.book.look([self.own()])
        assert requests is not None
        assert tokens is not None
        for used, parts in (
            (requests.used, [(at, count) for at, count, _ in self.log.values()]),
            (tokens.used, [*((at, count) for at, _, count in self.log.values()), *self.extra]),
        ):
            ages = [(self.clock.now - at, count) for at, count in parts]
            assert sum(count for age, count in ages if age < 60 * SECOND) <= used
            assert used <= sum(count for age, count in ages if age < 61 * SECOND)
        assert 0 <= requests.remaining <= requests.limit
        assert 0 <= tokens.remaining <= tokens.limit


TestCalls = Calls.TestCase
TestCalls.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)


def test_what_is_used_is_told_by_account() -> None:
    """What was settled, not what was reserved; nothing of those that nobody uses any more."""
    clock = Clock()
    book = MemoryBook(clock)
    both = account("both", requests_per_minute=5, tokens_per_minute=100, concurrency=2)
    idle = account("idle", requests_per_minute=5)
    book.look([idle])
    assert book.uses() == {}
    admitted = book.decide([Claim(both, tokens=50)]).admitted
    assert admitted is not None
    assert book.uses() == {"both": Use(requests=1, tokens=50, at_once=1)}
    book.settle(admitted, 20)
    book.release(admitted)
    assert book.uses() == {"both": Use(requests=1, tokens=20)}
    clock.now += 61 * SECOND
    assert book.uses() == {}
