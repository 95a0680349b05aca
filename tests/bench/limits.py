"""The rows of limits: what windows let pass, by a virtual clock, and what limiting costs a call."""

from __future__ import annotations

import random
import statistics
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import orjson
import structlog
import uvloop

from ext_proc.answers import Clocks
from ext_proc.contract.snapshot import Backend, Consumer, Limits, Model, Snapshot, Tier, Version
from ext_proc.exchange import Answered, Exchange, RequestHead, ResponseHead
from ext_proc.limits.book import MemoryBook
from ext_proc.limits.estimates import Estimates
from ext_proc.limits.window import SPAN_US, Window
from ext_proc.openai.paths import classify
from ext_proc.openai.requests import parse_request
from ext_proc.openai.responses import parse_completion
from ext_proc.snapshots import Loaded
from ext_proc.stages.limit import Book, Limit, Meter
from ext_proc.stores.redis import connect
from ext_proc.stores.shared_limits import RedisBook
from tests.bench.measure import Effort, Row
from tests.harness.redis import RedisMissingError, redis_server

LIMIT = 600
ROUNDS = 20
MINUTES = 10
MANY = Limits(10**9, 10**12, 10**6)
BODY = orjson.dumps({"model": "m", "messages": [{"role": "user", "content": "a question " * 40}]})
ANSWER = orjson.dumps(
    {
        "choices": [{"index": 0, "message": {"content": "an answer"}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 120, "completion_tokens": 40, "total_tokens": 160},
    }
)


class Way(Protocol):
    """A way to limit."""

    def admits(self, now: int) -> bool:
        """Say whether a call passes, and count it."""
        ...


class Ring:
    """Ours."""

    def __init__(self) -> None:
        self._window = Window()

    def admits(self, now: int) -> bool:
        """Ask the window."""
        self._window.pass_time(now)
        if self._window.fits_at(1, LIMIT):
            return False
        self._window.add(now, 1)
        return True


class Log:
    """Every call is remembered for a minute."""

    def __init__(self) -> None:
        self._times: deque[int] = deque()

    def admits(self, now: int) -> bool:
        """Look at all of them."""
        while self._times and self._times[0] + SPAN_US <= now:
            self._times.popleft()
        if len(self._times) >= LIMIT:
            return False
        self._times.append(now)
        return True


class Gcra:
    """The generic cell rate algorithm: one number; so many may come at once."""

    def __init__(self, burst: int) -> None:
        self._every = SPAN_US / LIMIT
        self._tolerance = (burst - 1) * self._every
        self._expected = 0.0

    def admits(self, now: int) -> bool:
        """Compare with when the next one is expected."""
        if self._expected - self._tolerance > now:
            return False
        self._expected = max(self._expected, now) + self._every
        return True


class TwoWindows:
    """The estimate of two fixed minutes, the older one by its share."""

    def __init__(self) -> None:
        self._minute, self._counts = 0, [0, 0]

    def admits(self, now: int) -> bool:
        """Weigh both."""
        minute, into = divmod(now, SPAN_US)
        if minute != self._minute:
            self._counts = [self._counts[1] if minute == self._minute + 1 else 0, 0]
            self._minute = minute
        if self._counts[0] * (1 - into / SPAN_US) + self._counts[1] + 1 > LIMIT:
            return False
        self._counts[1] += 1
        return True


WAYS: dict[str, Callable[[], Way]] = {
    "ring of 61 seconds (ours)": Ring,
    "log of all calls": Log,
    "GCRA, burst 1": lambda: Gcra(1),
    f"GCRA, burst {LIMIT}": lambda: Gcra(LIMIT),
    "two windows, weighed": TwoWindows,
}


def steady(rate: float) -> Iterator[int]:
    """Yield the times of calls that come evenly."""
    step = SPAN_US / (LIMIT * rate)
    return (int(number * step) for number in range(int(LIMIT * rate * MINUTES)))


def bursts() -> Iterator[int]:
    """Yield the times of calls in a storm now and then, and few in between."""
    draw = random.Random(1)
    now = 0.0
    while now < MINUTES * SPAN_US:
        for _ in range(2 * LIMIT):
            yield int(now)
            now += draw.expovariate(1) * 2_000
        now += draw.uniform(5, 90) * 1e6


TRACES: dict[str, Callable[[], Iterator[int]]] = {
    "even, 3 × the limit": lambda: steady(3),
    "even, at the limit": lambda: steady(1),
    "storms": bursts,
}


def simulate(way: Way, trace: Iterator[int]) -> tuple[int, float]:
    """Return the most that passed within a minute, and what passed of what a log lets pass."""
    best, passed = Log(), 0
    within: deque[int] = deque()
    most = possible = 0
    for now in trace:
        possible += best.admits(now)
        if way.admits(now):
            passed += 1
            within.append(now)
        while within and within[0] + SPAN_US <= now:
            within.popleft()
        most = max(most, len(within))
    return most, passed / possible


def measure_limits(effort: Effort, folder: Path) -> list[Row]:
    """Return the rows."""
    rows = [_window_row(name, make) for name, make in WAYS.items()]
    rows.append(_cost_row(min(effort.requests, 10_000)))
    with ExitStack() as owned:
        try:
            server = owned.enter_context(redis_server(folder))
        except RedisMissingError as missing:
            return [*rows, Row("limiter, in Redis", "≤ 500 µs", f"not measured: {missing}", None)]
        rows += uvloop.run(_in_redis(server.url, min(effort.requests, 2_000)))
    return rows


def _window_row(name: str, make: Callable[[], Way]) -> Row:
    found = {trace: simulate(make(), times()) for trace, times in TRACES.items()}
    told = ", ".join(f"{trace}: {most} / {share:.1%}" for trace, (most, share) in found.items())
    way, calls = make(), 100_000
    began = time.perf_counter()
    for number in range(calls):
        way.admits(number * 500)
    each = (time.perf_counter() - began) / calls * 1e6
    kept = all(most <= LIMIT and share >= 0.98 for most, share in found.values())
    return Row(
        f"{name}: most in a minute / passed",
        f"≤ {LIMIT} / ≥ 98 %",
        f"{told}; {each:.2f} µs",
        kept if name.endswith("(ours)") else None,
    )


def call(loaded: Loaded) -> Exchange:
    """Return a call of a Consumer in a Tier to a Model, all of them limited."""
    head = RequestHead("POST", "/v1/chat/completions", "", {"content-type": "application/json"})
    opened = Exchange(head, loaded, classify(head.method, head.path), body=BODY)
    opened.request = parse_request(opened.classified.operation, BODY, "application/json", None)
    opened.tier, opened.consumer = "gold", loaded.snapshot.consumers["team"]
    opened.model = loaded.snapshot.models["m"]
    return opened


def limited(accounts: int) -> Loaded:
    """Return a snapshot whose limits nobody reaches: a Tier's, or a Consumer's and a Model's too."""
    more = MANY if accounts > 1 else None
    return Loaded(
        Snapshot(
            "1",
            backends={"b": Backend("b", "http://127.0.0.1:1/v1")},
            models={"m": Model("m", (Version("v", "b", "m"),), limits=more)},
            tiers={"gold": Tier("gold", limits=MANY)},
            consumers={"team": Consumer("team", "team", "gold", more)},
        )
    )


@dataclass(frozen=True, slots=True)
class Cost:
    """What limiting a call takes, in µs: until it is admitted, and after its answer."""

    reserve: float
    settle: float

    def __str__(self) -> str:
        return f"{self.reserve + self.settle:.0f} µs ({self.reserve:.0f} + {self.settle:.0f})"


async def _one(meter: Meter, limit: Limit, opened: Exchange, answered: Answered) -> Cost:
    began = time.perf_counter()
    if await meter.on_request(opened) or await limit.on_request(opened):
        raise RuntimeError("refused")
    admitted = time.perf_counter()
    opened.response = answered.head
    limit.on_response_head(opened)
    limit.on_response(opened, answered)
    limit.on_end(opened)
    return Cost((admitted - began) * 1e6, (time.perf_counter() - admitted) * 1e6)


async def _costs(book: Book, calls: int, accounts: int) -> Cost:
    """Return the medians of what calls took; of the round in which this machine was disturbed least."""
    rounds = [await _medians(book, max(calls // ROUNDS, 1), accounts) for _ in range(ROUNDS)]
    return min(rounds, key=lambda cost: cost.reserve + cost.settle)


async def _medians(book: Book, calls: int, accounts: int) -> Cost:
    loaded, meter, limit = limited(accounts), Meter(book), Limit(book, Estimates())
    operation = call(loaded).classified.operation
    answered = Answered(ResponseHead(200, {}), ANSWER, parse_completion(operation, ANSWER))
    took = [await _one(meter, limit, call(loaded), answered) for _ in range(calls)]
    return Cost(
        statistics.median(cost.reserve for cost in took), statistics.median(cost.settle for cost in took)
    )


def _cost_row(calls: int) -> Row:
    one, three = (
        uvloop.run(_costs(MemoryBook(lambda: time.monotonic_ns() // 1000), calls, accounts))
        for accounts in (1, 3)
    )
    return Row(
        "limiter in memory, p50: a Tier / and Consumer and Model",
        "≤ 30 µs",
        f"{one} / {three}: to admit it + to settle it",
        one.reserve + one.settle <= 30,
    )


async def _in_redis(url: str, calls: int) -> list[Row]:
    client = connect(url)
    book = RedisBook(client, lambda: Clocks(time.time(), time.monotonic()), structlog.get_logger(), "bench")
    await _costs(book, 50, 1)
    one, three = [await _costs(book, calls, accounts) for accounts in (1, 3)]
    pings: list[float] = []
    for _ in range(calls):
        began = time.perf_counter()
        await client.ping()
        pings.append((time.perf_counter() - began) * 1e6)
    await book.close()
    await client.aclose()
    return [
        Row(
            "limiter in Redis, p50: a Tier / and Consumer and Model",
            "≤ 500 µs",
            f"{one} / {three}, a PING {statistics.median(pings):.0f} µs",
            one.reserve + one.settle <= 500,
        )
    ]
