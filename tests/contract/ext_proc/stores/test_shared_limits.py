"""Limits: one suite over memory and a real Redis; its scripts against the pure sums; processors together."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from typing import Any

import pytest
import structlog
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from redis import Redis as PlainRedis

from ext_proc.answers import Clocks
from ext_proc.contract.snapshot import Limits
from ext_proc.limits.book import MemoryBook
from ext_proc.limits.claims import Account, Claim, Rate, Reservation, Unavailable
from ext_proc.limits.priorities import shedding_of
from ext_proc.limits.window import SPAN_US
from ext_proc.stages.limit import Book
from ext_proc.stores.limit_words import NOTHING, PREFIX, Amounts, Shape, corrections_of
from ext_proc.stores.redis import connect
from ext_proc.stores.shared_limits import RESERVE, SETTLE, RedisBook
from tests.harness.redis import RedisServer

Make = Callable[[str], RedisBook]


def clocks() -> Clocks:
    """Return both clocks, now."""
    return Clocks(time.time(), time.monotonic())


def account(
    name: str = "tier:a",
    *,
    requests_per_minute: int | None = None,
    tokens_per_minute: int | None = None,
    concurrency: int | None = None,
) -> Account:
    """Return an account with these limits."""
    return Account(name, name, Limits(requests_per_minute, tokens_per_minute, concurrency))


@pytest.fixture
async def processor(redis: RedisServer) -> AsyncIterator[Make]:
    """Open the book of one more processor, by its name; Redis is empty at first."""
    redis.command("FLUSHALL")
    async with AsyncExitStack() as opened:

        def make(name: str) -> RedisBook:
            client = connect(redis.url)
            opened.push_async_callback(client.aclose)
            book = RedisBook(client, clocks, structlog.get_logger(), name)
            opened.push_async_callback(book.close)
            return book

        yield make


@pytest.fixture(params=["memory", "redis"])
def book(request: pytest.FixtureRequest) -> Book:
    """Either book."""
    if request.param == "memory":
        return MemoryBook(lambda: time.monotonic_ns() // 1000)
    made: Book = request.getfixturevalue("processor")("one")
    return made


async def admitted(book: Book, *claims: Claim) -> Reservation:
    """Reserve what has to be admitted."""
    verdict = await book.reserve(claims)
    assert verdict.admitted is not None
    return verdict.admitted


async def remaining(book: Book, of: Account) -> tuple[int | None, int | None]:
    """Return what is left of an account's requests and tokens, by a call that takes nothing."""
    verdict = await book.reserve([Claim(of, 0, 0, slot=False)])
    requests, tokens = verdict.requests, verdict.tokens
    return requests.remaining if requests else None, tokens.remaining if tokens else None


async def test_all_or_nothing(book: Book) -> None:
    """What one account refuses costs the other nothing; the wait is told."""
    wide, narrow = account("tier:wide", requests_per_minute=10), account("model:n", requests_per_minute=1)
    await admitted(book, Claim(wide), Claim(narrow))
    verdict = await book.reserve([Claim(wide), Claim(narrow)])
    assert verdict.admitted is None
    assert verdict.refusal is not None
    assert (verdict.refusal.account, verdict.refusal.rate, verdict.refusal.limit) == (
        narrow,
        Rate.REQUESTS,
        1,
    )
    assert 59 < verdict.refusal.wait_s <= 60
    assert verdict.requests is not None
    assert (verdict.requests.remaining, verdict.requests.limit) == (0, 1)
    assert await remaining(book, wide) == (9, None)


async def test_settled_and_given_back_exactly_once(book: Book) -> None:
    """Less gives back, more is added, a refund gives all back; a second word changes nothing."""
    both = account(requests_per_minute=10, tokens_per_minute=1_000)
    less, more, failed = [await admitted(book, Claim(both, tokens=100)) for _ in range(3)]
    assert await remaining(book, both) == (7, 700)
    for _ in range(2):
        book.settle(less, 30)
        book.settle(more, 150)
        book.refund(failed)
    book.refund(less)
    book.settle(failed, 500)
    for ended in (less, more, failed):
        book.release(ended)
    async with asyncio.timeout(2):
        while await remaining(book, both) != (8, 820):
            pass
    assert await remaining(book, both) == (8, 820)


async def test_budgets_of_a_day_are_settled_like_a_minutes_tokens(book: Book) -> None:
    """Reserved, settled, given back; the refusal tells the wait."""
    day = Account(
        "consumer:c", "c", Limits(tokens_per_minute=10**6, tokens_per_day=1_000, cost_per_day=0.002)
    )
    one, two = [await admitted(book, Claim(day, tokens=400, cost=900)) for _ in range(2)]
    book.settle(one, 300, 1_500)
    book.refund(two)
    for ended in (one, two):
        book.release(ended)
    async with asyncio.timeout(2):
        while (await book.reserve([Claim(day, 0, 700, cost=500)])).admitted is None:
            pass
    refusal = (await book.reserve([Claim(day, 0, 1, cost=1)])).refusal
    assert refusal is not None
    assert (refusal.rate, refusal.limit) in ((Rate.DAY_TOKENS, 1_000), (Rate.DAY_COST, 2_000))
    assert 86_390 < refusal.wait_s <= 86_400
    assert book.load(day).day == 1.0


async def test_a_budget_outlasts_a_processor(processor: Make) -> None:
    """Whoever comes next sees what was used."""
    day = Account("consumer:c", "c", Limits(tokens_per_day=100))
    await admitted(processor("old"), Claim(day, tokens=100))
    assert (await processor("new").reserve([Claim(day, tokens=1)])).admitted is None


async def test_lower_priorities_leave_room_for_the_upper(book: Book) -> None:
    """From their first call on; beyond four fifths once they have asked; by requests and places alike."""
    for limits, end in ((Limits(20), "r"), (Limits(concurrency=20), "c")):
        low, high = [
            Account(f"model:{end}", "m", limits, shedding_of(priority, (0, 10))) for priority in (0, 10)
        ]
        passed = [(await book.reserve([Claim(low)])).admitted for _ in range(20)]
        assert sum(reservation is not None for reservation in passed) == 19
        refusal = (await book.reserve([Claim(low)])).refusal
        assert refusal is not None
        assert refusal.shed
        await admitted(book, Claim(high))
        refusal = (await book.reserve([Claim(high)])).refusal
        assert refusal is not None
        assert not refusal.shed
        for reservation in passed[:3]:
            assert reservation is not None
            book.refund(reservation)
            book.release(reservation)
        async with asyncio.timeout(2):
            while (await book.reserve([Claim(high)])).admitted is None:
                pass
        assert (await book.reserve([Claim(low)])).admitted is None


async def test_places_are_given_back(book: Book) -> None:
    """Beyond them nobody passes; an end makes room for one."""
    two = account(concurrency=2)
    first, _ = [await admitted(book, Claim(two)) for _ in range(2)]
    refused = await book.reserve([Claim(two)])
    assert refused.refusal is not None
    assert (refused.refusal.rate, refused.refusal.wait_s) == (Rate.CONCURRENCY, 1.0)
    book.release(first)
    book.release(first)
    async with asyncio.timeout(2):
        while (await book.reserve([Claim(two)])).admitted is None:
            pass
    assert (await book.reserve([Claim(two)])).admitted is None


async def test_exact_under_a_storm(book: Book) -> None:
    """Two thousand at once on a hundred."""
    hundred = account(requests_per_minute=100, tokens_per_minute=10_000)
    verdicts = await asyncio.gather(*(book.reserve([Claim(hundred, tokens=3)]) for _ in range(2_000)))
    assert sum(verdict.admitted is not None for verdict in verdicts) == 100


async def test_processors_share_one_limit(processor: Make, redis: RedisServer) -> None:
    """Ten a minute are ten in all, also when the scripts are flushed between calls."""
    books = [processor("one"), processor("two"), processor("three"), processor("four")]
    ten = account(requests_per_minute=10, concurrency=100)
    passed = 0
    for _ in range(5):
        redis.command("SCRIPT", "FLUSH")
        verdicts = await asyncio.gather(*(book.reserve([Claim(ten)]) for book in books))
        passed += sum(verdict.admitted is not None for verdict in verdicts)
    assert passed == 10
    hundred = account("tier:b", requests_per_minute=100)
    storm = await asyncio.gather(*(book.reserve([Claim(hundred)]) for book in books for _ in range(500)))
    assert sum(verdict.admitted is not None for verdict in storm) == 100


async def test_every_key_has_a_time_to_live_and_one_tag(processor: Make, redis: RedisServer) -> None:
    """So that a cluster keeps them together, and nothing stays for ever."""
    book = processor("one")
    one = account(requests_per_minute=5, tokens_per_minute=500, concurrency=5)
    held = await admitted(
        book, Claim(one, tokens=5), Claim(account("model:m", tokens_per_minute=50), tokens=5)
    )
    book.settle(held, 50)
    await asyncio.sleep(0.1)
    with PlainRedis.from_url(redis.url) as client:
        keys = client.keys("*")
        assert isinstance(keys, list)
        assert len(keys) == 4
        for key in keys:
            assert key.startswith(b"outrigger:{limits}:")
            assert 0 < int(client.pttl(key)) <= 62_000


async def test_a_cluster_takes_the_calls(redis_cluster: RedisServer) -> None:
    """All keys of a call are in one slot."""
    client = connect(redis_cluster.url)
    book = RedisBook(client, clocks, structlog.get_logger(), "one")
    claims = [Claim(account(requests_per_minute=5, concurrency=1)), Claim(account("model:m", concurrency=3))]
    reservation = (await book.reserve(claims)).admitted
    assert reservation is not None
    assert reservation.name
    await book.close()
    await client.aclose()


async def test_poison_under_our_names_counts_for_nothing(processor: Make, redis: RedisServer) -> None:
    """Junk is nothing used; what is no string is decided by each processor."""
    one = account(requests_per_minute=1)
    key = f"{PREFIX}{one.key}"
    redis.command("SET", key, "junk", "PX", "60000")
    assert (await processor("one").reserve([Claim(one)])).admitted is not None
    assert (await processor("two").reserve([Claim(one)])).admitted is None
    redis.command("DEL", key)
    redis.command("LPUSH", key, "junk")
    book = processor("three")
    assert [(await book.reserve([Claim(one)])).admitted is not None for _ in range(2)] == [True, False]
    redis.command("DEL", key)


async def test_without_redis_each_processor_has_its_share(processor: Make, redis: RedisServer) -> None:
    """Half of ten each; what was used counts, and Redis hears of it when it is back."""
    one, two = processor("one"), processor("two")
    ten = account(requests_per_minute=10)
    for book in (one, two, one):
        await admitted(book, Claim(ten))
    async with asyncio.timeout(5):
        while one.share != 0.5:
            await one._renewed()
    redis.freeze()
    try:
        passed = [(await one.reserve([Claim(ten)])).admitted is not None for _ in range(6)]
        assert passed == [True, True, True, False, False, False]
        with pytest.raises(Unavailable):
            await one.reserve([Claim(ten)], refuse_on_loss=True)
    finally:
        redis.thaw()
    async with asyncio.timeout(10):
        while one._trips.is_away():  # noqa: ASYNC110 - it is asked, not told
            await asyncio.sleep(0.05)
    await one.reserve([Claim(ten, 0)])
    async with asyncio.timeout(2):
        while await remaining(two, ten) != (4, None):
            pass


async def test_late_answers_are_neither_lost_nor_counted_twice(processor: Make, redis: RedisServer) -> None:
    """What Redis admits after its caller was admitted here is the same call."""
    book = processor("one")
    ten = account(requests_per_minute=10, tokens_per_minute=1_000, concurrency=10)
    await admitted(book, Claim(ten, 0, 0, slot=False))
    redis.freeze()
    try:
        kept = await book.reserve([Claim(ten, tokens=10)])
        assert kept.admitted is not None
        assert book._trips.is_away()
    finally:
        redis.thaw()
    async with asyncio.timeout(10):
        while book._trips.is_away() or not kept.admitted.name:  # noqa: ASYNC110 - it is asked, not told
            await asyncio.sleep(0.02)
    assert await remaining(book, ten) == (9, 990)
    book.settle(kept.admitted, 4)
    book.release(kept.admitted)
    async with asyncio.timeout(2):
        while await remaining(book, ten) != (9, 996):
            pass
    assert (await book.reserve([Claim(account(concurrency=1))])).admitted is not None


async def test_a_caller_who_leaves_while_it_is_decided_costs_nothing(processor: Make) -> None:
    """At whatever moment."""
    book = processor("one")
    ten = account(requests_per_minute=10, concurrency=10)
    for steps in range(12):
        asking = asyncio.create_task(book.reserve([Claim(ten)]))
        for _ in range(steps):
            await asyncio.sleep(0.0005)
        if asking.cancel():
            await asyncio.gather(asking, return_exceptions=True)
        if not asking.cancelled():
            found = asking.result().admitted
            assert found is not None
            book.refund(found)
            book.release(found)
    async with asyncio.timeout(2):
        while await remaining(book, ten) != (10, None):
            pass
    assert [(await book.reserve([Claim(ten)])).admitted is not None for _ in range(10)] == [True] * 10


async def test_the_places_of_a_dead_processor_are_free_again(processor: Make, redis: RedisServer) -> None:
    """When its lease is over; a living one's are renewed."""
    dead, alive = processor("dead"), processor("alive")
    two = account(concurrency=2)
    for book in (dead, alive):
        await admitted(book, Claim(two))
    key = f"{PREFIX}places:{two.key}"
    with PlainRedis.from_url(redis.url) as client:
        for name, _ in client.zrange(key, 0, -1, withscores=True):
            client.zadd(key, {name: time.time() * 1e6 + 300_000})
        await alive._renewed()
        await asyncio.sleep(0.35)
    assert (await alive.reserve([Claim(two)])).admitted is not None
    assert (await alive.reserve([Claim(two)])).admitted is None


def eval_at(client: PlainRedis, text: str, now: int, keys: list[str], arguments: list[Any]) -> list[int]:
    """Run a script as if the server's time were `now`."""
    fixed = text.replace("redis.call('TIME')", "{ARGV[#ARGV - 1], ARGV[#ARGV]}")
    seconds, micros = divmod(now, 1_000_000)
    found: Any = client.eval(fixed, len(keys), *keys, " ".join(map(str, arguments)), seconds, micros)
    return [int(word) for word in found.split()]


STEP = st.tuples(
    st.integers(-1_000_000, 25_000_000)
    | st.just(20_000_000_000),  # time that passes; a clock may be put back
    st.sampled_from(["reserve", "settle", "refund"]),
    st.integers(0, 60),
)


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], database=None
)
@given(steps=st.lists(STEP, max_size=25), limits=st.tuples(st.integers(1, 6), st.integers(1, 100)))
def test_the_scripts_do_the_sums_of_the_pure_code(
    redis: RedisServer, steps: list[tuple[int, str, int]], limits: tuple[int, int]
) -> None:
    """Step by step: the same verdicts, readings and waits."""
    one = Account(
        "tier:same",
        "",
        Limits(limits[0], limits[1], tokens_per_day=3 * limits[1], cost_per_day=limits[1] * 4e-6),
    )
    shape = Shape(one)
    now = 1_700_000_000_000_000
    pure = MemoryBook(lambda: now)
    every = shape.keys
    reservations: list[Reservation] = []
    with PlainRedis.from_url(redis.url) as client:
        client.delete(*every)
        for pause, what, amount in steps:
            now += pause
            if what == "reserve" or not reservations:
                tokens = min(amount, limits[1])
                claim = Claim(one, tokens=tokens, cost=amount)
                words, keys = shape.reserved(claim, NOTHING)
                told = eval_at(client, RESERVE.text, now, list(keys), ["n", 1, words])
                verdict = pure.decide([claim])
                assert verdict.requests is not None
                assert verdict.tokens is not None
                assert told[0] == now
                assert bool(told[1]) == (verdict.admitted is not None)
                by_window = [told[4 + 3 * number : 7 + 3 * number] for number in range(4)]
                for (used, full_at, _), reading in zip(
                    by_window, (verdict.requests, verdict.tokens), strict=False
                ):
                    assert (used, max(full_at - now, 0) / 1e6) == (reading.used, reading.reset_s)
                assert max(
                    used / bound.limit for (used, _, _), bound in zip(by_window, one.bounds, strict=True)
                ) == max(pure.load(one))
                if verdict.refusal is not None:
                    waits = [fits_at - now for _, _, fits_at in by_window]
                    assert max(waits) == pytest.approx(verdict.refusal.wait_s * 1e6)
                if verdict.admitted is not None:
                    reservations.append(verdict.admitted)
                continue
            reservation = reservations.pop(amount % len(reservations))
            (claim,) = reservation.claims
            pure.look([one])  # time passes for the script, too
            took = NOTHING if what == "refund" else Amounts(1, amount, amount)
            parts = corrections_of(claim, took)
            if not parts:
                continue  # nothing is corrected, and so nothing is looked at
            if what == "refund":
                pure.refund(reservation)
            else:
                pure.settle(reservation, amount, amount)
            words, keys = shape.corrected(parts, places=False)
            eval_at(client, SETTLE.text, now, list(keys), [reservation.at_us, "-", words])
        client.delete(*every)
    assert SPAN_US == 60_000_000
