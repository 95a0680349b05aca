"""The only place in the data plane that names concrete classes."""

from __future__ import annotations

import asyncio
import gc
import os
import random
import secrets
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import structlog
import uvloop
from prometheus_client import CollectorRegistry
from structlog.typing import FilteringBoundLogger

from ext_proc.agent.disk import SNAPSHOT_FILE, SnapshotFile
from ext_proc.answers import Clocks
from ext_proc.continuation import Caller, FlightContinuation
from ext_proc.contract.routes import origin_cluster
from ext_proc.contract.snapshot import Purge, Snapshot
from ext_proc.flights import Flights
from ext_proc.openai.batching.array import Array
from ext_proc.openai.batching.inputs import Codec
from ext_proc.openai.batching.native import Native
from ext_proc.openai.batching.packed import Packed
from ext_proc.openai.paths import Operation
from ext_proc.pipeline import Decisions, Pipeline, Stage, announced
from ext_proc.refresh import BackgroundRefresh
from ext_proc.settings import AgentSettings, ProcessorSettings
from ext_proc.snapshots import SnapshotHolder
from ext_proc.stages.assign import Assign
from ext_proc.stages.batch import BatchStage
from ext_proc.stages.cache import Cache
from ext_proc.stages.catalog import Catalog
from ext_proc.stages.clamp import Clamp
from ext_proc.stages.coalesce import Coalesce
from ext_proc.stages.identify import Identify
from ext_proc.stages.learn import Learn, QuotaObserver
from ext_proc.stages.pin import Pin
from ext_proc.stages.resolve import Resolve
from ext_proc.stages.route import Route
from ext_proc.stores.memory import MemoryStore
from ext_proc.tally import CacheTally
from ext_proc.telemetry.cache_metrics import CacheMetrics
from ext_proc.telemetry.logs import configure_logging
from ext_proc.telemetry.processor_metrics import ProcessorMetrics, keep_metrics_in
from ext_proc.tiers import MEMORY, REDIS, Tiers
from ext_proc.transport.caller import EnvoyCaller
from ext_proc.transport.origin import OriginServer
from ext_proc.transport.processor import ExternalProcessor
from ext_proc.transport.server import ProcessorServer
from ext_proc.transport.subscriber import Subscriber

if TYPE_CHECKING:
    from ext_proc.stores.redis import RedisStore

STOP_GRACE_S = 2.0
# Python's own first threshold, 700, cost a no-op grpcio processor about a tenth of its CPU; much higher ones
# let grpcio's cycles pile up. With these the HTTP/2 transport grew by 0.8 MB in 200,000 requests.
GC_THRESHOLDS = (5_000, 10, 10)


@dataclass(frozen=True, slots=True)
class Sharing:
    """What one processor shares: its flights, who calls without a leader, and where followers are sent."""

    flights: Flights
    caller: Caller
    origin: str
    log: FilteringBoundLogger


@dataclass(frozen=True, slots=True)
class Caching:
    """The cache of one processor: where answers are kept, what is void of them, and what it did."""

    tiers: Tiers
    tally: CacheTally
    purges: Callable[[], Sequence[Purge]]


def stages(
    caching: Caching, decisions: Decisions, quota: QuotaObserver, started: int, sharing: Sharing
) -> Sequence[Stage]:
    """Return the stages in the order that a request meets them. `started` is in seconds since the epoch."""
    cache = Cache(caching.tiers, time.monotonic, caching.tally, caching.purges)
    route = Route()
    continuation = FlightContinuation(sharing.flights, sharing.caller, cache.on_response, sharing.log)
    coalesce = Coalesce(sharing.flights, continuation, sharing.origin)
    cache.refresh_by(BackgroundRefresh(sharing.caller, route.on_request, cache.on_response, sharing.log))
    return (
        Identify(time.time),
        Catalog(started),
        Resolve(decisions),
        Assign(random.random),
        Clamp(decisions),
        Pin(time.time, caching.tally),
        cache,
        coalesce,
        Learn(quota, time.time),
        BatchStage(
            codecs(),
            decide=route.on_request,
            caller=sharing.caller,
            keep=(cache.on_response, coalesce.on_response),
            clock=time.monotonic,
            log=sharing.log,
        ),
        route,
    )


def codecs() -> Mapping[tuple[str, Operation], Codec]:
    """Return how requests are batched, by the Policy's mode and the operation."""
    return {
        ("native", Operation.EMBEDDINGS): Native(Operation.EMBEDDINGS),
        ("native", Operation.COMPLETIONS): Native(Operation.COMPLETIONS),
        ("array", Operation.CHAT): Array(),
        ("packed", Operation.CHAT): Packed(partial(secrets.token_hex, 6)),
    }


def pipeline(
    holder: SnapshotHolder, sharing: Sharing, caching: Caching, registry: CollectorRegistry
) -> Pipeline:
    """Return the pipeline over the snapshots of `holder`, counting into this process's metric files."""
    metrics = ProcessorMetrics(registry)
    steps = stages(caching, metrics, metrics, int(time.time()), sharing)
    metrics.announce(announced(steps))
    return Pipeline(steps, holder, metrics)


async def serve_processor(settings: ProcessorSettings, log: FilteringBoundLogger) -> None:
    """Serve until told to stop (SIGTERM, SIGINT).

    The last good snapshot on disk is served at once; the agent's is awaited otherwise.
    """
    holder, ready, stopping = SnapshotHolder(), asyncio.Event(), asyncio.Event()

    def on_snapshot(snapshot: Snapshot) -> None:
        log.info("snapshot in force", version=snapshot.version)
        ready.set()

    last_good = SnapshotFile(settings.data_dir / SNAPSHOT_FILE, log).read()
    if last_good is not None:
        holder.replace(last_good)
        on_snapshot(last_good)
    caller = EnvoyCaller(settings.run_dir.inner_socket)
    redis = _redis(settings, log)
    memory = MemoryStore(1, 1, time.monotonic)  # the stage sizes it by the policy
    shared = {REDIS: redis} if redis is not None else {}
    caching = Caching(Tiers(memory, shared, _clocks), CacheTally(), partial(_purges, holder))
    registry = CollectorRegistry()
    cache_metrics = CacheMetrics(caching.tally, partial(_held, memory), registry)
    sharing = Sharing(Flights(), caller, origin_cluster(settings.worker), log)
    origin = OriginServer(sharing.flights, caller, settings.run_dir.origin_socket(settings.worker), log)
    server = ProcessorServer(
        ExternalProcessor(pipeline(holder, sharing, caching, registry), log),
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
    )
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    await origin.start()
    await server.start()
    if redis is not None:
        redis.start()
    following = asyncio.create_task(subscriber.run(), name="subscriber")
    showing = asyncio.create_task(cache_metrics.run(), name="cache metrics")
    stopped = asyncio.create_task(stopping.wait(), name="stopped")
    readied = asyncio.create_task(ready.wait(), name="ready")
    # What lives from here on is garbage of requests; the modules are looked at no more.
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)
    try:
        await asyncio.wait((following, stopped, readied), return_when=asyncio.FIRST_COMPLETED)
        if readied.done():
            server.serve()
            await asyncio.wait((following, stopped), return_when=asyncio.FIRST_COMPLETED)
        if following.done():
            following.result()  # it ends only by failing
    finally:
        for task in (following, stopped, readied, showing):
            task.cancel()
        await asyncio.gather(following, stopped, readied, showing, return_exceptions=True)
        await server.stop(STOP_GRACE_S)
        await origin.stop()
        await sharing.flights.close()
        if redis is not None:
            await redis.close()


def _redis(settings: ProcessorSettings, log: FilteringBoundLogger) -> RedisStore | None:
    if settings.redis is None:
        return None
    # Imported only where it is used: it is a megabyte of modules.
    from ext_proc.stores.redis import RedisStore, connect  # noqa: PLC0415

    return RedisStore(connect(settings.redis), _clocks, log)


def _clocks() -> Clocks:
    return Clocks(time.time(), time.monotonic())


def _purges(holder: SnapshotHolder) -> Sequence[Purge]:
    return holder.current.snapshot.purges if holder.current is not None else ()


def _held(memory: MemoryStore) -> Mapping[str, tuple[int, int]]:
    stats = memory.stats()
    return {MEMORY: (stats.entries, stats.bytes)}


def run_processor(settings: ProcessorSettings) -> int:
    """Run one processor until it is told to stop; return its exit status."""
    name = f"processor-{settings.worker}"
    configure_logging(name, settings.log_level)
    keep_metrics_in(settings.run_dir.metrics, settings.worker)
    uvloop.run(serve_processor(settings, structlog.get_logger(name)))
    return 0


def run_agent(settings: AgentSettings) -> int:
    """Run the agent until it is told to stop; return its exit status."""
    # Imported here, so that a processor does not load the agent: 200 modules and 6 MB.
    from ext_proc.agent import run as agent  # noqa: PLC0415

    configure_logging("agent", settings.log_level)
    epoch = os.urandom(8).hex()
    log = structlog.get_logger("agent")
    uvloop.run(agent.run_agent(settings, os.environ, random.random, log, epoch=epoch))
    return 0
