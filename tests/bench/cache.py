"""The rows of the cache's stores, in-process: hit ratio against LRU, memory, what each tier adds to a hit."""

from __future__ import annotations

import asyncio
import itertools
import math
import random
import statistics
import time
import tracemalloc
from bisect import bisect
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

import structlog

from ext_proc.answers import Clocks, StoredAnswer
from ext_proc.stores.database import DatabaseStore
from ext_proc.stores.engines import engines_for
from ext_proc.stores.entry_store import EntryStore
from ext_proc.stores.memory import MemoryStore
from ext_proc.stores.redis import RedisStore, connect
from tests.bench.measure import Effort, Row
from tests.harness.postgres import PostgresMissingError, postgres_server
from tests.harness.redis import RedisMissingError, redis_server

QUESTIONS = 50_000
# A short answer to a chat, as JSON.
BODY = b'{"id": "chatcmpl-1", "choices": [{"message": {"content": "' + b"word " * 200 + b'"}}]}'
ROUND_KEYS = 200


def measure_cache(effort: Effort, folder: Path) -> list[Row]:
    """Return every row."""
    calls = max(effort.requests, 100_000)
    rows = [_hit_ratio(skew, size, calls) for skew in (0.7, 0.9, 1.1) for size in (1_000, 5_000)]
    rows += [_memory_per_entry(), *_memory_paths(effort)]
    with ExitStack() as stack:
        stores = {"SQLite": f"sqlite:///{folder / 'answers.db'}"}
        try:
            stores["Redis"] = stack.enter_context(redis_server(folder)).url
        except RedisMissingError:
            rows.append(Row("Redis hit", "", "Redis is not installed", None))
        try:
            stores["PostgreSQL"] = stack.enter_context(postgres_server()).url()
        except PostgresMissingError:
            rows.append(Row("PostgreSQL hit", "", "PostgreSQL is not installed", None))
        rows += [asyncio.run(_shared(name, url, effort)) for name, url in stores.items()]
    return rows


class _Lru:
    """What the memory store is measured against: least recently used out, by number alone."""

    def __init__(self, size: int, clock: Callable[[], float]) -> None:
        self._size = size
        self._clock = clock
        self._answers: OrderedDict[bytes, StoredAnswer] = OrderedDict()
        self.hits = 0

    def get(self, key: bytes) -> StoredAnswer | None:
        """Return what is under `key`, now the most recently used."""
        answer = self._answers.get(key)
        if answer is None or answer.expires_at <= self._clock():
            return None
        self._answers.move_to_end(key)
        self.hits += 1
        return answer

    def put(self, key: bytes, answer: StoredAnswer) -> bool:
        """Keep `answer`."""
        self._answers[key] = answer
        if len(self._answers) > self._size:
            self._answers.popitem(last=False)
        return True


def _hit_ratio(skew: float, size: int, calls: int) -> Row:
    answer, trace = _answer(), _zipf(skew, calls)
    ours, theirs = (
        sum(store.get(key) is not None or not store.put(key, answer) for key in trace) / calls
        for store in (MemoryStore(size, 10**12, lambda: 0.0), _Lru(size, lambda: 0.0))
    )
    return Row(
        f"hit ratio, Zipf {skew}, room for {size:,} of {QUESTIONS:,}",
        "≥ LRU",
        f"{ours:.3f}, LRU {theirs:.3f}",
        ours >= theirs,
        {"ratio": ours, "lru": theirs},
    )


def _zipf(skew: float, calls: int) -> Sequence[bytes]:
    dice = random.Random(7)
    weights = list(itertools.accumulate(1 / (rank + 1) ** skew for rank in range(QUESTIONS)))
    keys = [_key(number) for number in range(QUESTIONS)]
    return [keys[bisect(weights, dice.random() * weights[-1])] for _ in range(calls)]


def _memory_per_entry() -> Row:
    count = 10_000
    store = MemoryStore(count, 10**12, lambda: 0.0)
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for number in range(2 * count):
        store.put(_key(number), _answer(number))
    used = (tracemalloc.get_traced_memory()[0] - before) / count
    tracemalloc.stop()
    told = store.stats().bytes / count
    return Row(
        f"memory per entry, body of {len(BODY):,} bytes",
        "as counted ± 25 %",
        f"{used:,.0f} bytes, counted {told:,.0f}",
        abs(told - used) <= used / 4,
        {"bytes": used, "counted": told},
    )


def _memory_paths(effort: Effort) -> list[Row]:
    known = [_key(number * 7919 % 10_000) for number in range(10_000)]
    best: dict[str, float] = {}
    stores: dict[str, MemoryStore | _Lru] = {
        "ours": MemoryStore(10_000, 10**12, time.monotonic),
        "lru": _Lru(10_000, time.monotonic),
    }
    for store in stores.values():
        for number in range(10_000):
            store.put(_key(number), _answer(number))
    for _ in range(effort.rounds * 3):
        for name, store in stores.items():
            best[name] = min(best.get(name, math.inf), _us(store.get, known))
    ours, lru = best["ours"], best["lru"]
    return [
        Row(
            "memory hit",
            "≤ 1.5 × LRU's",
            f"{ours:.2f} µs, LRU {lru:.2f} µs",
            ours <= 1.5 * lru,
            {"us": ours, "lru_us": lru},
        )
    ]


def _us(get: Callable[[bytes], object], keys: Sequence[bytes]) -> float:
    began = time.perf_counter()
    for key in keys:
        get(key)
    return (time.perf_counter() - began) / len(keys) * 1e6


async def _shared(name: str, url: str, effort: Effort) -> Row:
    log = structlog.get_logger()
    store: EntryStore = (
        RedisStore(connect(url), _clocks, log)
        if name == "Redis"
        else DatabaseStore(engines_for(url), _clocks, log)
    )
    store.start()
    for number in range(ROUND_KEYS):
        store.put(_key(number), _answer(number))
    while store.stats.written < ROUND_KEYS and not store.stats.dropped:  # noqa: ASYNC110 - it has no event
        await asyncio.sleep(0.01)
    took_ms = []
    for number in range(effort.calls * effort.rounds):
        began = time.perf_counter()
        found = await store.get(_key(number % ROUND_KEYS))
        if found is not None:
            took_ms.append((time.perf_counter() - began) * 1000)
    await store.close()
    p50, p99 = statistics.median(took_ms), statistics.quantiles(took_ms, n=100)[98]
    return Row(
        f"{name} hit adds, p50",
        "≤ 1 ms" if name == "Redis" else "",
        f"{p50:.2f} ms, p99 {p99:.2f} ms",
        p50 <= 1 if name == "Redis" else None,
        {"p50_ms": p50, "p99_ms": p99},
    )


def _key(number: int) -> bytes:
    return number.to_bytes(32, "big")


def _answer(number: int = 0) -> StoredAnswer:
    now = time.monotonic()
    return StoredAnswer(
        *(BODY + b"%06d" % number, "application/json", "gpt-4o-mini", "stable", now, now + 3600.0),
        *(300 + number, 400 + number, 1.5, now + 1800.0, "team-a"),
    )


def _clocks() -> Clocks:
    return Clocks(time.time(), time.monotonic())
