"""One processor: what it consists of, from its first snapshot to its end."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from functools import partial

import structlog
import uvloop
from prometheus_client import CollectorRegistry
from structlog.typing import FilteringBoundLogger

from ext_proc.agent.disk import SNAPSHOT_FILE, SnapshotFile
from ext_proc.cache_view import CacheLook
from ext_proc.cache_warmup import CacheWarmUp
from ext_proc.contract.snapshot import Purge, Snapshot
from ext_proc.flights import Flights
from ext_proc.other_answers import OtherAnswers
from ext_proc.quick_start import started
from ext_proc.release_tally import ReleaseTally
from ext_proc.semantic.on_demand import SimilarOnDemand
from ext_proc.settings import ProcessorSettings, origin_cluster
from ext_proc.shadow import ShadowCalls
from ext_proc.snapshots import SnapshotHolder
from ext_proc.tally import CacheTally
from ext_proc.telemetry.cache_metrics import CacheMetrics
from ext_proc.telemetry.logs import configure_logging
from ext_proc.telemetry.processor_metrics import keep_metrics_in
from ext_proc.telemetry.release_metrics import ReleaseMetrics
from ext_proc.transport.caller import EnvoyCaller
from ext_proc.transport.origin import OriginServer
from ext_proc.transport.processor import ExternalProcessor
from ext_proc.transport.server import ProcessorServer
from ext_proc.transport.subscriber import Subscriber
from ext_proc.warmup import WarmUp
from ext_proc.wiring.caching import Caching, Stores, open_stores
from ext_proc.wiring.providers import open_providers
from ext_proc.wiring.stages import Sharing, pipeline

STOP_GRACE_S = 2.0
DATABASE_READY_S = 3.0
# Python's own first threshold, 700, cost a no-op grpcio processor about a tenth of its CPU; much higher ones
# let grpcio's cycles pile up. With these the HTTP/2 transport grew by 0.8 MB in 200,000 requests.
GC_THRESHOLDS = (5_000, 10, 10)


def run_processor(settings: ProcessorSettings) -> int:
    """Run one processor until it is told to stop; return its exit status."""
    name = f"processor-{settings.worker}"
    configure_logging(name, settings.log_level)
    keep_metrics_in(settings.run_dir.metrics, settings.worker)
    uvloop.run(serve_processor(settings, structlog.get_logger(name)))
    return 0


async def serve_processor(settings: ProcessorSettings, log: FilteringBoundLogger) -> None:
    """Serve until told to stop (SIGTERM, SIGINT).

    The last good snapshot on disk is served at once; the agent's is awaited otherwise.
    """
    async with AsyncExitStack() as owned:
        await _serve(settings, log, owned)


def _purges(holder: SnapshotHolder) -> Sequence[Purge]:
    return holder.current.snapshot.purges if holder.current is not None else ()


def _warm_ups(
    holder: SnapshotHolder,
    caller: EnvoyCaller,
    stores: Stores,
    caching: Caching,
    *,
    log: FilteringBoundLogger,
    owned: AsyncExitStack,
) -> tuple[WarmUp, CacheWarmUp]:
    """Return who wakes providers, and who fills new versions' part of the cache.

    `owned` ends the calls of the first, the cache stage those of the other.
    """
    warmup = WarmUp(lambda: holder.current, caller, stores.turns, time.monotonic, log)
    owned.push_async_callback(warmup.close)
    cache_warmup = CacheWarmUp(
        lambda: holder.current,
        caller,
        caching.tiers,
        stores.turns,
        tally=caching.tally,
        purges=caching.purges,
        clock=time.monotonic,
        log=log,
    )
    return warmup, cache_warmup


async def _serve(settings: ProcessorSettings, log: FilteringBoundLogger, owned: AsyncExitStack) -> None:
    holder, ready, stopping = SnapshotHolder(), asyncio.Event(), asyncio.Event()
    stores, providers = (
        await open_stores(settings, log, owned),
        await open_providers(settings, log, owned),
    )
    caller = EnvoyCaller(settings.run_dir.inner_socket)
    registry, tally, compared, clock = CollectorRegistry(), CacheTally(), ReleaseTally(), time.monotonic
    caching = Caching(stores.tiers, tally, partial(_purges, holder))
    warmup, cache_warmup = _warm_ups(holder, caller, stores, caching, log=log, owned=owned)

    def on_snapshot(snapshot: Snapshot) -> None:
        log.info("snapshot in force", version=snapshot.version)
        stores.on_snapshot(snapshot)
        providers.watch.follow(snapshot.backends)
        cache_warmup.follow(snapshot)
        compared.keep({one.name for model in snapshot.models.values() for one in model.releases})
        ready.set()

    last_good = SnapshotFile(settings.data_dir / SNAPSHOT_FILE, log).read()
    if last_good is not None:
        holder.replace(last_good)
        on_snapshot(last_good)
    similar = SimilarOnDemand(
        stores.tiers,
        caller,
        tally,
        clock=clock,
        draw=random.random,
        log=log,
        purges=caching.purges,
    )
    owned.push_async_callback(similar.close)
    sharing = Sharing(
        Flights(),
        caller,
        origin_cluster(settings.worker),
        log,
        stores.elsewhere,
        similar,
        stores.book,
        stores.sessions,
        warmup=warmup,
        cache_warmup=cache_warmup,
        shadow=ShadowCalls(lambda: holder.current, caller, compared, clock, log),
        other_answers=OtherAnswers(stores.tiers, caching.purges, compared),
        providers=providers,
    )
    owned.push_async_callback(sharing.flights.close)
    origin = OriginServer(sharing.flights, caller, settings.run_dir.origin_socket(settings.worker), log)
    deciding = pipeline(holder, sharing, caching, registry)
    owned.push_async_callback(deciding.close)
    server = ProcessorServer(
        ExternalProcessor(deciding, log),
        settings.run_dir.processor_socket(settings.worker),
        log,
        settings.transport,
    )
    subscriber = Subscriber(
        f"unix:{settings.run_dir.agent_socket}",
        f"processor-{settings.worker}",
        holder,
        on_snapshot,
        jitter=random.random,
        log=log,
        cache=CacheLook(tally, stores.memory, stores.held, clock),
        epoch=os.urandom(8).hex(),
        on_attempt=sharing.providers.watch.observe_attempt,
        comparisons=lambda: compared.comparisons,
        uses=stores.book.uses,
    )
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    # What was kept before this start is there for the first request, if that takes no longer than a moment.
    await stores.database.ready(DATABASE_READY_S)
    await origin.start()
    await server.start()
    following = asyncio.create_task(subscriber.run(), name="subscriber")
    shown = CacheMetrics(tally, stores.held, registry, stores.leases), ReleaseMetrics(compared, registry)
    showing = [asyncio.create_task(one.run(), name=type(one).__name__) for one in shown]
    stopped = asyncio.create_task(stopping.wait(), name="stopped")
    readied = asyncio.create_task(ready.wait(), name="ready")
    started(GC_THRESHOLDS)
    try:
        await asyncio.wait((following, stopped, readied), return_when=asyncio.FIRST_COMPLETED)
        if readied.done():
            server.serve()
            warmup.begin()
            await asyncio.wait((following, stopped), return_when=asyncio.FIRST_COMPLETED)
        if following.done():
            following.result()  # it ends only by failing
    finally:
        for task in (following, stopped, readied, *showing):
            task.cancel()
        await asyncio.gather(following, stopped, readied, *showing, return_exceptions=True)
        await server.stop(STOP_GRACE_S)
        await origin.stop()
