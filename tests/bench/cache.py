"""The rows of the cache's stores, in-process: hit ratio against LRU, memory, what each tier adds to a hit."""

from __future__ import annotations

import asyncio
import itertools
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
    """What the memory store is measured against: least recently used out."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._keys: OrderedDict[bytes, None] = OrderedDict()

    def asked(self, key: bytes) -> bool:
        """Say whether `key` is there; it is, from now on."""
        if key in self._keys:
            self._keys.move_to_end(key)
            return True
        self._keys[key] = None
        if len(self._keys) > self._size:
            self._keys.popitem(last=False)
        return False


def _hit_ratio(skew: float, size: int, calls: int) -> Row:
    answer = _answer()
    lru, store = _Lru(size), MemoryStore(size, 10**12, lambda: 0.0)

    def asked(key: bytes) -> bool:
        return store.get(key) is not None or not store.put(key, answer)

    trace = _zipf(skew, calls)
    ours, theirs = (sum(map(one, trace)) / calls for one in (asked, lru.asked))
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
    store = MemoryStore(10_000, 10**12, time.monotonic)
    for number in range(10_000):
        store.put(_key(number), _answer())
    known, fresh = [_key(number * 7919 % 10_000) for number in range(10_000)], itertools.count(10_000)

    def hits() -> None:
        for key in known:
            store.get(key)

    def puts() -> None:
        for number in itertools.islice(fresh, 10_000):
            store.put(_key(number), _answer())

    lru = _Lru(10_000)

    def floor() -> None:
        for key in known:
            lru.asked(key)
            time.monotonic()  # whether it has expired

    floor_us, hit_us, put_us = (_best_us(path, 10_000, effort.rounds * 5) for path in (floor, hits, puts))
    measured, kept = f"{hit_us:.2f} µs, LRU {floor_us:.2f} µs", hit_us <= 2 * floor_us
    return [
        Row("memory hit", "≤ 2 × LRU's", measured, kept, {"us": hit_us, "lru_us": floor_us}),
        Row("memory put that makes room", "", f"{put_us:.2f} µs", None, {"us": put_us}),
    ]


def _best_us(path: Callable[[], None], calls: int, rounds: int) -> float:
    best = float("inf")
    for _ in range(rounds):
        began = time.perf_counter()
        path()
        best = min(best, time.perf_counter() - began)
    return best / calls * 1e6


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
