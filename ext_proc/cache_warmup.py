"""Filling a new version's part of the cache at each step of its Release (`warmCache`).

Answers are kept by the version that gave them, so a new version begins without any. While a Release is on its
way, what callers of the old version ask most is remembered; when its share grows, the new version is asked
these questions in the background, through Envoy like any other call and within the Backend's quota. The
answers are kept for whom the questions were asked. They are nobody's calls: no limit counts them.

The step is in force meanwhile: a caller who moves may be sooner than the answer to their question.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from structlog.typing import FilteringBoundLogger

from ext_proc.answer_forms import is_answer
from ext_proc.continuation import Caller, CallFailed, read_answer
from ext_proc.contract.headers import ACCOUNT, CREDENTIALS
from ext_proc.contract.snapshot import Purge, Rollout, Snapshot
from ext_proc.exchange import Answer, Answered, Exchange, Forward, Reason, RequestHead
from ext_proc.hot_questions import MAX_BODY_BYTES, HotQuestions, Question
from ext_proc.openai.paths import classify
from ext_proc.openai.requests import BadRequest, encode, parse_request
from ext_proc.question import is_shareable, question_key
from ext_proc.snapshots import Loaded
from ext_proc.tally import CacheTally, Warmed
from ext_proc.tiers import REDIS, Tiers
from ext_proc.warmup import Turns

AT_ONCE: Final = 4
"""How many such calls a processor makes at the same time."""
KEPT_BYTES: Final = 16 * 1024 * 1024
"""What the questions of all Releases may take in one processor."""
COUNTED_FOR_EACH: Final = 2
"""So many are counted for each that is wanted: the least asked ones change places all the time."""
FAILED_AT_MOST: Final = 4
"""A version that fails so often without a break is not asked on."""
TURN_S: Final = 60.0
_HEADERS: Final = {"content-type": "application/json"}
_JSON: Final = "application/json"


@dataclass(frozen=True, slots=True)
class Move:
    """Whom a Release moves: the callers of a Model from one version to another."""

    release: str
    model: str
    from_version: str
    to_version: str


@dataclass(slots=True)
class _Watched:
    """A Release on its way: its share, what is asked of the old version, the round that a step has begun."""

    move: Move
    share: float
    hot: HotQuestions
    wanted: int = 0
    asking: asyncio.Task[None] | None = None

    def stop(self) -> None:
        """Ask nothing more."""
        if self.asking is not None:
            self.asking.cancel()


class CacheWarmUp:
    """Remembers questions and asks them again. For one event loop.

    Args:
        current: the snapshot in force.
        caller: who makes the calls.
        tiers: where answers are kept.
        turns: who of several processors that share answers asks a question.
        tally: told what became of each question.
        purges: what is void.
        clock: a monotonic time in seconds, the same as the answers'.
        log: where the end of a round is told.
    """

    def __init__(
        self,
        current: Callable[[], Loaded | None],
        caller: Caller,
        tiers: Tiers,
        turns: Turns,
        *,
        tally: CacheTally,
        purges: Callable[[], Sequence[Purge]],
        clock: Callable[[], float],
        log: FilteringBoundLogger,
    ) -> None:
        self._current = current
        self._caller = caller
        self._tiers = tiers
        self._turns = turns
        self._tally = tally
        self._purges = purges
        self._clock = clock
        self._log = log
        self._room = asyncio.Semaphore(AT_ONCE)
        # By the names of Model and Release.
        self._watched: dict[tuple[str, str], _Watched] = {}
        self._decide: Callable[[Exchange], Awaitable[Answer | Forward | None]] | None = None
        self._keep: Callable[[Exchange, Answered], None] = lambda exchange, answered: None
        self._ended: Callable[[Exchange], None] = lambda exchange: None

    def go_by(
        self,
        decide: Callable[[Exchange], Awaitable[Answer | Forward | None]],
        keep: Callable[[Exchange, Answered], None],
        ended: Callable[[Exchange], None],
    ) -> None:
        """Say who decides where a call goes, who keeps its answer, and who hears of its end; at the start."""
        self._decide, self._keep, self._ended = decide, keep, ended

    def follow(self, snapshot: Snapshot) -> None:
        """Watch the Releases of `snapshot` that are on their way; warm up for those whose share has grown."""
        under_way = {
            (model.name, rollout.name): rollout
            for model in snapshot.models.values()
            for rollout in model.releases
            if rollout.warm_cache and rollout.share > 0
        }
        for place in self._watched.keys() - under_way.keys():
            self._watched.pop(place).stop()
        for (model_name, _), rollout in under_way.items():
            self._follow(model_name, rollout)
        watching = [watched for watched in self._watched.values() if watched.share < 1]
        for watched in self._watched.values():
            # With everybody on the new version there is nothing more to be heard of the old one.
            wanted = watched.wanted * COUNTED_FOR_EACH if watched.share < 1 else 0
            watched.hot.resize(wanted, KEPT_BYTES // max(len(watching), 1))

    def asked(self, exchange: Exchange, key: bytes) -> None:
        """Take notice of a question that may be answered from the cache, under `key`."""
        watched = self._watched.get((exchange.model_name, exchange.release))
        if watched is None or watched.move.from_version != exchange.assigned or watched.hot.again(key):
            return
        question = question_of(exchange)
        if question is not None:
            watched.hot.begin(key, question)

    async def close(self) -> None:
        """End every call."""
        rounds = [watched.asking for watched in self._watched.values() if watched.asking is not None]
        for task in rounds:
            task.cancel()
        await asyncio.gather(*rounds, return_exceptions=True)

    def _follow(self, model: str, rollout: Rollout) -> None:
        move = Move(rollout.name, model, rollout.from_version, rollout.to_version)
        watched = self._watched.get((model, rollout.name))
        if watched is None or watched.move != move:
            if watched is not None:
                watched.stop()
            watched = self._watched[model, rollout.name] = _Watched(move, rollout.share, HotQuestions(0, 0))
        before, watched.share, watched.wanted = watched.share, rollout.share, rollout.warm_cache
        if rollout.share != before:
            watched.stop()
        if rollout.share > before:
            questions = watched.hot.hottest(rollout.warm_cache)
            watched.hot.halve()
            watched.asking = asyncio.get_running_loop().create_task(
                self._round(move, questions), name="cache warm-up"
            )

    async def _round(self, move: Move, questions: list[Question]) -> None:
        """Ask all of them, the most asked ones first, unless the provider has trouble."""
        left, outcomes = list(reversed(questions)), Counter[Warmed]()
        failed = 0

        async def some() -> None:
            nonlocal failed
            while left:
                question = left.pop()
                async with self._room:
                    outcome = await self._ask(move, question)
                self._tally.warmed_up(outcome)
                outcomes[outcome] += 1
                failed = failed + 1 if outcome is Warmed.FAILED else 0
                if left and (outcome is Warmed.REFUSED or failed >= FAILED_AT_MOST):
                    self._tally.warmed_up(Warmed.DROPPED, len(left))
                    outcomes[Warmed.DROPPED] += len(left)
                    left.clear()

        await asyncio.gather(*(some() for _ in range(AT_ONCE)))
        told = {outcome.value: number for outcome, number in sorted(outcomes.items())}
        self._log.info("a new version's cache was warmed up", release=move.release, **told)

    async def _ask(self, move: Move, question: Question) -> Warmed:
        made = self._exchange(move, question)
        if made is None:
            return Warmed.SKIPPED
        try:
            made.cache_key = question_key(made)
            if await self._is_held(made, made.cache_key):
                return Warmed.HELD
            return await self._call(made)
        except CallFailed:
            return Warmed.FAILED
        except Exception as error:
            self._log.error("warming up a cache failed", error=type(error).__name__, exc_info=True)
            return Warmed.FAILED
        finally:
            self._ended(made)

    def _exchange(self, move: Move, question: Question) -> Exchange | None:
        """Return the question as asked of the new version now; None if that may no longer be, or cannot."""
        loaded = self._current()
        model = loaded.snapshot.models.get(move.model) if loaded is not None else None
        if loaded is None or model is None:
            return None
        version = next((one for one in model.versions if one.name == move.to_version), None)
        backend = loaded.snapshot.backends.get(version.backend) if version is not None else None
        if version is None or backend is None or (question.own_key and backend.credential is None):
            return None
        consumer = question.consumer
        if consumer is not None:
            known = loaded.snapshot.consumers.get(consumer.name)
            if known is None or known.tenant != consumer.tenant:
                return None
        head = RequestHead("POST", question.path, question.query, _HEADERS)
        made = Exchange(head, loaded, classify(head.method, head.path), holds_snapshot=False)
        made.body, made.tenant, made.consumer = question.body, question.tenant, consumer
        try:
            made.request = parse_request(made.classified.operation, question.body, _JSON, None)
        except BadRequest:
            return None
        made.asked_model, made.model, made.version, made.backend = model.name, model, version, backend
        made.assigned = move.to_version
        made.policy = loaded.policy_of(model, version, question.tier)
        made.wants_body, made.wants_stream = True, made.parsed.stream
        made.asked_at = self._clock()
        return made if made.policy.cache.enabled and is_shareable(made) else None

    async def _is_held(self, made: Exchange, key: bytes) -> bool:
        """Whether the answer is there, or another processor sees to it."""
        names = made.policy.cache.tiers
        found = await self._tiers.find(key, names, self._purges(), partial(is_answer, made.parsed))
        if found is not None and found.answer.fresh_until > made.asked_at:
            return True
        shared = names is None or REDIS in names
        return shared and not await self._turns.take(f"question:{key.hex()}", TURN_S)

    async def _call(self, made: Exchange) -> Warmed:
        decision = await self._decide(made) if self._decide is not None else None
        if not isinstance(decision, Forward):
            shared = decision is not None and decision.reason is Reason.SERVED_FROM_FLIGHT
            return Warmed.HELD if shared else Warmed.REFUSED
        made.forwarded = decision
        async with self._caller.call(made.head, decision, made.body) as reply:
            answered = await read_answer(made, reply)
        self._keep(made, answered)
        return Warmed.ANSWERED


def question_of(exchange: Exchange) -> Question | None:
    """Return the exchange's question, to be asked again later.

    None for one that is too long, or whose answer may be due to headers or a query that are not kept since
    they may hold a key.
    """
    head = exchange.head
    if any(name in head.headers for name in ACCOUNT) or not _is_plain(head.query):
        return None
    if len(exchange.body) > MAX_BODY_BYTES:
        return None
    body = encode(exchange.parsed.document) if exchange.changed else exchange.body
    if len(body) > MAX_BODY_BYTES:
        return None
    # A Consumer's key is for us, and does not go up.
    own_key = exchange.consumer is None and any(name in head.headers for name in CREDENTIALS)
    return Question(
        head.path, head.query, body, exchange.tenant, exchange.tier, exchange.consumer, own_key=own_key
    )


def _is_plain(query: str) -> bool:
    return all(part.startswith("api-version=") for part in query.split("&") if part)
