"""The rows of pacing: a crowd before a quota, an outage, in virtual time; processors that share a quota."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack, ExitStack
from pathlib import Path

import structlog
import uvloop

from ext_proc.answers import Clocks
from ext_proc.contract.snapshot import Quota
from ext_proc.providers.quota import Ask, Draft, MemoryQuotas
from ext_proc.stores.redis import connect
from ext_proc.stores.shared_quota import RedisQuotas
from tests.bench.crowd import Provider, Seen, Sidecar, crowd, policy
from tests.bench.measure import Effort, Row
from tests.harness.redis import RedisMissingError, redis_server
from tests.harness.virtual_time import run_virtually

QUOTA = Quota(3500, 90_000)
CLIENTS, SIDECARS = 200, 8
DOWN_FROM_S, DOWN_UNTIL_S = 5.0, 35.0
SMALL = Quota(900)
REAL_S = 10.0


def measure_pacing(effort: Effort, folder: Path) -> list[Row]:
    """Return the rows."""
    seconds = 90.0 if effort.rounds < 5 else 240.0
    rows = [_crowd_row(number, seconds) for number in (1, SIDECARS)]
    rows += [_outage_row(), _cost_row(min(effort.requests, 50_000))]
    with ExitStack() as owned:
        try:
            server = owned.enter_context(redis_server(folder))
        except RedisMissingError as missing:
            return [*rows, Row("a quota in Redis", "", f"not measured: {missing}", None)]
        rows += uvloop.run(_in_redis(server.url))
    return rows


def _crowd_row(sidecars: int, seconds: float) -> Row:
    async def scenario() -> tuple[Provider, Seen]:
        clock = asyncio.get_running_loop().time
        provider, shared = Provider(clock, QUOTA), MemoryQuotas(lambda: int(clock() * 1e6))
        several = [Sidecar(policy(QUOTA), clock, shared) for _ in range(sidecars)]
        return provider, await crowd(several, provider, CLIENTS, seconds)

    provider, seen = run_virtually(scenario())
    refused = seen.statuses.get(429, 0)
    by_provider = provider.refused / max(provider.calls, 1)
    used = len(provider.served) / (seconds / 60 * (QUOTA.requests_per_minute or 1))
    return Row(
        f"{CLIENTS} clients, 3,500 RPM / 90,000 TPM, sidecars: {sidecars}; 429s seen / the provider's / used",
        "0 / ≤ 0.1 % / ≥ 97 %",
        f"{refused} / {by_provider:.2%} / {used:.1%}",
        refused == 0 and by_provider <= 0.001 and used >= 0.97,
        {"refused": refused, "by_provider": by_provider, "used": used},
    )


def _outage_row() -> Row:
    async def scenario() -> tuple[Provider, Seen]:
        clock = asyncio.get_running_loop().time
        provider = Provider(clock, Quota(), down=(DOWN_FROM_S, DOWN_UNTIL_S), latency_s=0.5)
        several = [Sidecar(policy(Quota()), clock) for _ in range(SIDECARS)]
        return provider, await crowd(several, provider, CLIENTS, 50.0)

    provider, seen = run_virtually(scenario())
    # The full rate is that of the seconds before.
    rate = sum(2.0 <= at < DOWN_FROM_S for at in provider.served) / (DOWN_FROM_S - 2.0)
    recovered_s = next(
        (
            begin / 4
            for begin in range(60)
            if sum(0 <= at - DOWN_UNTIL_S - begin / 4 < 1.0 for at in provider.served) >= 0.9 * rate
        ),
        float("inf"),
    )
    during = provider.calls - len(provider.served)
    amplification = provider.calls / seen.asked
    return Row(
        f"an outage of 30 s, {SIDECARS} sidecars, each alone: calls by calls asked / recovered after",
        "≤ 1.1 / ≤ 5 s",
        f"{amplification:.2f} ({during} calls in vain) / {recovered_s:.1f} s",
        amplification <= 1.1 and recovered_s <= 5.0,
        {"amplification": amplification, "recovered_s": recovered_s, "in_vain": during},
    )


def _cost_row(calls: int) -> Row:
    quotas = MemoryQuotas(lambda: time.monotonic_ns() // 1000)
    ask = Ask("b", Quota(10**9, 10**12, 10**6), 100)
    began = time.perf_counter()
    for _ in range(calls):
        drawn = quotas.decide(ask)
        if not isinstance(drawn, Draft):
            raise TypeError("the quota is used up")
        quotas.settle(drawn, 60)
        quotas.release(drawn)
    each = (time.perf_counter() - began) / calls * 1e6
    return Row("a quota, in memory", "", f"{each:.1f} µs", None, {"us": each})


async def _in_redis(url: str) -> Sequence[Row]:
    async with AsyncExitStack() as owned:
        several = []
        for number in range(SIDECARS):
            client = connect(url)
            owned.push_async_callback(client.aclose)
            quotas = RedisQuotas(client, _clocks, structlog.get_logger(), f"p{number}")
            owned.push_async_callback(quotas.close)
            several.append(quotas)
        costs = []
        ask = Ask("cost", Quota(10**9, 10**12), 100)
        for number in range(1000):
            began = time.perf_counter()
            drawn = await several[number % SIDECARS].draw(ask)
            costs.append((time.perf_counter() - began) * 1e3)
            if isinstance(drawn, Draft):
                several[number % SIDECARS].release(drawn)
        each = sorted(costs)[len(costs) // 2]
        return [
            Row("a quota, in Redis: p50", "", f"{each:.2f} ms", None, {"ms": each}),
            await _together(several),
        ]


async def _together(several: Sequence[RedisQuotas]) -> Row:
    """Compare what a crowd gets in ten real seconds with what one processor gets in virtual ones."""
    clock = asyncio.get_running_loop().time
    real = Provider(clock, SMALL, latency_s=0.1)
    sidecars = [Sidecar(policy(SMALL), clock, quotas) for quotas in several]
    seen = await crowd(sidecars, real, 64, REAL_S)

    async def alone() -> Provider:
        virtual = asyncio.get_running_loop().time
        provider = Provider(virtual, SMALL, latency_s=0.1)
        await crowd([Sidecar(policy(SMALL), virtual)], provider, 64, REAL_S)
        return provider

    expected = await asyncio.to_thread(run_virtually, alone())
    share = len(real.served) / len(expected.served)
    refused = seen.statuses.get(429, 0)
    return Row(
        f"64 clients, 900 RPM, {REAL_S:.0f} s, one Redis for {SIDECARS}: 429s seen / the provider's / of one",
        "0 / 0 / ≥ 97 %",
        f"{refused} / {real.refused} / {share:.1%} ({len(real.served)} calls)",
        refused == 0 and real.refused == 0 and share >= 0.97,
        {"refused": refused, "share": share},
    )


def _clocks() -> Clocks:
    return Clocks(time.time(), time.monotonic())
