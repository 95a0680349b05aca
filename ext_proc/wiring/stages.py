"""The pipeline: its stages in order, with what they share."""

from __future__ import annotations

import random
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from prometheus_client import CollectorRegistry
from structlog.typing import FilteringBoundLogger

from ext_proc.answers import Clocks
from ext_proc.cache_warmup import CacheWarmUp
from ext_proc.continuation import Caller, FlightContinuation
from ext_proc.exchange import Answer, Answered, Exchange, Forward
from ext_proc.flights import Flights
from ext_proc.limits.book import MemoryBook
from ext_proc.limits.estimates import Estimates
from ext_proc.openai.batching.array import Array
from ext_proc.openai.batching.inputs import Codec
from ext_proc.openai.batching.native import Native
from ext_proc.openai.batching.packed import Packed
from ext_proc.openai.paths import Operation
from ext_proc.other_answers import OtherAnswers
from ext_proc.pacing import Pacing
from ext_proc.pipeline import Decisions, Pipeline, Stage, announced
from ext_proc.providers.usage_refusals import UsageRefusals
from ext_proc.refresh import BackgroundRefresh
from ext_proc.shadow import ShadowCalls
from ext_proc.snapshots import SnapshotHolder
from ext_proc.stages.assign import Assign
from ext_proc.stages.batch import BatchStage
from ext_proc.stages.cache import Cache, SimilarAnswers
from ext_proc.stages.catalog import Catalog
from ext_proc.stages.clamp import Clamp
from ext_proc.stages.coalesce import Coalesce, Elsewhere
from ext_proc.stages.hold import Hold
from ext_proc.stages.identify import Identify
from ext_proc.stages.learn import Learn, QuotaObserver
from ext_proc.stages.limit import Book, Limit, Meter
from ext_proc.stages.pin import Pin
from ext_proc.stages.redact import Audit, Redact
from ext_proc.stages.resolve import Resolve
from ext_proc.stages.route import Route
from ext_proc.stages.session import Session, Sessions
from ext_proc.stages.shadow import Shadow
from ext_proc.stages.warm import Warm
from ext_proc.stores.memory_sessions import MemorySessions
from ext_proc.telemetry.processor_metrics import ProcessorMetrics
from ext_proc.timing import Stopwatches
from ext_proc.warmup import WarmUp
from ext_proc.wiring.caching import Caching
from ext_proc.wiring.providers import Providers, alone
from ext_proc.wiring.sessions import clocks


@dataclass(frozen=True, slots=True)
class Sharing:
    """What one processor shares: its flights, who calls without a leader, and where followers are sent.

    `elsewhere` knows of other processors' flights; `similar` of answers to similar questions. Without
    a `book` limits are counted in this processor alone, without `sessions` those are kept here alone.
    `clock` is the running loop's; `clocks` tell the time of day, too.
    """

    flights: Flights
    caller: Caller
    origin: str
    log: FilteringBoundLogger
    elsewhere: Elsewhere | None = None
    similar: SimilarAnswers | None = None
    book: Book | None = None
    sessions: Sessions | None = None
    providers: Providers = field(default_factory=alone)
    warmup: WarmUp | None = None
    cache_warmup: CacheWarmUp | None = None
    shadow: ShadowCalls | None = None
    other_answers: OtherAnswers | None = None
    clock: Callable[[], float] = time.monotonic
    clocks: Callable[[], Clocks] = clocks


def stages(
    caching: Caching,
    decisions: Decisions,
    quota: QuotaObserver,
    started: int,
    sharing: Sharing,
    *,
    audit: Audit,
) -> Sequence[Stage]:
    """Return the stages in the order that a request meets them. `started` is in seconds since the epoch."""
    clock, log = sharing.clock, sharing.log
    usage_refusals = UsageRefusals(clock)
    route = Route(usage_refusals.knows)
    cache = Cache(caching.tiers, clock, caching.tally, caching.purges, sharing.similar)
    book = sharing.book if sharing.book is not None else MemoryBook(lambda: int(clock() * 1e6))
    estimates = Estimates()
    limit = Limit(book, estimates)
    providers = sharing.providers
    hold = Hold(providers.watch, providers.quotas, estimates, clock)

    def keep(exchange: Exchange, answered: Answered) -> None:
        cache.on_response(exchange, answered)
        limit.on_response(exchange, answered)
        hold.on_response(exchange, answered)

    async def refreshed_by(exchange: Exchange) -> Answer | Forward | None:
        refused = await limit.admit_anew(exchange) or await hold.on_request(exchange)
        return refused or await route.on_request(exchange)

    async def warmed_by(exchange: Exchange) -> Answer | Forward | None:
        return await hold.on_request(exchange) or await route.on_request(exchange)

    if sharing.warmup is not None:
        sharing.warmup.go_by(warmed_by, hold.on_end)

    def ended(exchange: Exchange) -> None:
        limit.on_end(exchange)
        hold.on_end(exchange)

    dropped = caching.tally.refresh_dropped
    cache.refresh_by(BackgroundRefresh(sharing.caller, refreshed_by, keep, log, ended=ended, dropped=dropped))

    def carried(exchange: Exchange) -> None:
        exchange.carried_on = False
        ended(exchange)

    continuation = FlightContinuation(sharing.flights, sharing.caller, keep, log, carried)
    coalesce = Coalesce(
        sharing.flights,
        continuation,
        sharing.origin,
        clocks=sharing.clocks,
        elsewhere=sharing.elsewhere,
        purges=caching.purges,
    )
    if sharing.other_answers is not None:
        cache.compared_by(sharing.other_answers)
    if sharing.shadow is not None:
        shadowed_by(sharing.shadow, hold, route)
    if sharing.cache_warmup is not None:
        warm_cache(sharing.cache_warmup, cache, coalesce, hold, route)
    batch = BatchStage(
        codecs(),
        decide=route.on_request,
        caller=sharing.caller,
        keep=(cache.on_response, coalesce.on_response, limit.on_response, hold.on_response),
        clock=clock,
        log=log,
    )
    return (
        Identify(time.time),
        Catalog(started),
        Resolve(decisions, book, hold.under_way),
        Assign(random.random),
        Clamp(decisions),
        Session(sharing.sessions if sharing.sessions is not None else MemorySessions(clock)),
        Meter(book),
        Pin(time.time, caching.tally),
        Redact(audit),
        cache,
        coalesce,
        limit,
        hold,
        Learn(quota, providers.watch, time.time, usage_refusals.note),
        *((Warm(sharing.warmup, clock),) if sharing.warmup is not None else ()),
        *((Shadow(sharing.shadow, random.random, clock),) if sharing.shadow is not None else ()),
        batch,
        route,
    )


def shadowed_by(shadow: ShadowCalls, hold: Hold, route: Route) -> None:
    """Have `shadow` make its calls with these stages, within the bounds of the new version's own policy."""
    bounds = Clamp(Uncounted())

    async def decide(exchange: Exchange) -> Answer | Forward | None:
        await bounds.on_request(exchange)
        return await hold.on_request(exchange) or await route.on_request(exchange)

    shadow.go_by(decide, hold.on_end)


class Uncounted:
    """Counts no decision: what is done for nobody is no decision about a request."""

    def decided(self, stage: str, reason: str) -> None:
        """Forget it."""


def warm_cache(warmup: CacheWarmUp, cache: Cache, coalesce: Coalesce, hold: Hold, route: Route) -> None:
    """Have `warmup` hear what the cache is asked, and make its calls with these stages.

    No limit counts them. Callers who ask the same meanwhile may join, but nobody is told such a call live.
    """

    async def decide(exchange: Exchange) -> Answer | Forward | None:
        refused = await hold.on_request(exchange)
        if refused is None and not exchange.parsed.stream:
            refused = await coalesce.on_request(exchange)
        return refused or await route.on_request(exchange)

    def keep(exchange: Exchange, answered: Answered) -> None:
        cache.on_response(exchange, answered)
        coalesce.on_response(exchange, answered)
        hold.on_response(exchange, answered)

    def ended(exchange: Exchange) -> None:
        # Without an answer, whoever has joined goes on alone.
        coalesce.on_unread(exchange)
        hold.on_end(exchange)

    warmup.go_by(decide, keep, ended)
    cache.remembered_by(warmup)


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
    if sharing.warmup is not None:
        sharing.warmup.counted_by(metrics)
    steps = stages(caching, metrics, metrics, int(time.time()), sharing, audit=metrics)
    metrics.announce(announced(steps))
    return Pipeline(
        steps,
        holder,
        metrics,
        Pacing(sharing.flights, sharing.origin),
        Stopwatches(time.perf_counter_ns, time.time),
    )
