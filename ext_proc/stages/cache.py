"""Exact and similar answers: the same question of the same partition and version, answered without a call.

The tiers are asked first (`ext_proc.tiers`), then, where the Policy wants that, answers to similar questions.
A stale answer may be served while a fresh one is fetched, or when the provider has none.

A stream is recorded while it passes and kept as its joined answer; a hit is given in the form that was asked
for. What may be stored is decided by the protocol code: a whole 200 that came to its end, nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Final, Protocol

from ext_proc.answer_forms import JSON, Form, form_of, in_form, is_answer
from ext_proc.answers import StoredAnswer
from ext_proc.contract.policies import CachePolicy
from ext_proc.contract.snapshot import Purge
from ext_proc.exchange import Answer, Answered, CacheStatus, Exchange, Forward, Reason, describe, stamps
from ext_proc.openai.deltas import NotJoinable
from ext_proc.openai.errors import ErrorType
from ext_proc.pipeline import PassingStage
from ext_proc.question import directives, is_shareable, partition, question_key
from ext_proc.refusals import refuse
from ext_proc.tally import SEMANTIC, STALE, CacheTally
from ext_proc.tiers import MEMORY, Found, Tiers

REMEMBERED_HITS: Final = 256
REMEMBERED_HIT_BYTES: Final = 8192
# How an answer is cut whose tokens are not known, and any at most: a replay takes its time, and some memory.
BYTES_PER_PIECE: Final = 8
PIECES_AT_MOST: Final = 2_000
# What makes a stale answer better than the provider's: it cannot be reached, is broken, or too busy.
_TROUBLE: Final = frozenset((408, 429, *range(500, 600)))
# The same, before the call has gone up.
_HELD_BACK: Final = frozenset((Reason.COOLING, Reason.QUOTA))


class SimilarAnswers(Protocol):
    """Knows which stored answer also answers a question that was put in other words."""

    async def find(self, exchange: Exchange) -> StoredAnswer | None:
        """Return an answer to be served for the exchange's question; None in shadow mode, too."""
        ...

    def learn(self, exchange: Exchange, key: bytes, answer: StoredAnswer) -> None:
        """Take notice of the provider's own answer to the exchange's question, kept under `key`."""
        ...


class Refresher(Protocol):
    """Asks the provider again behind an answer that was served."""

    def refresh(self, key: bytes, exchange: Exchange) -> None:
        """Ask the exchange's question in the background, unless `key` is being asked for already."""
        ...

    async def close(self) -> None:
        """End every such call."""
        ...


class Remembering(Protocol):
    """Takes notice of what is asked."""

    def asked(self, exchange: Exchange, key: bytes) -> None:
        """Take notice of a question that may be answered from the cache, under `key`."""
        ...

    async def close(self) -> None:
        """End what is being done about it."""
        ...


class Comparing(Protocol):
    """Compares what the two versions of a Release answer."""

    def asked(self, exchange: Exchange) -> None:
        """Take notice of a question under a Release that may be answered from the cache."""
        ...

    def answered(self, exchange: Exchange, answer: StoredAnswer) -> None:
        """Take notice of the provider's own answer to it."""
        ...


class Cache(PassingStage):
    """Answers from the tiers and fills them.

    Args:
        tiers: where answers are kept.
        clock: a monotonic time in seconds, the same as the answers'.
        tally: told of every hit and miss.
        purges: what is void, by the newest snapshot: an answer may be voided while it is on its way.
        similar: answers to similar questions, None where there are none.
    """

    name = "cache"
    reasons = frozenset((Reason.NOT_CACHED, Reason.SERVED_STALE))

    def __init__(
        self,
        tiers: Tiers,
        clock: Callable[[], float],
        tally: CacheTally,
        purges: Callable[[], Sequence[Purge]] = tuple,
        similar: SimilarAnswers | None = None,
    ) -> None:
        self._tiers = tiers
        self._purges = purges
        self._clock = clock
        self._tally = tally
        self._similar = similar
        self._refresher: Refresher | None = None
        self._remembering: Remembering | None = None
        self._comparing: Comparing | None = None
        self._last_hits: dict[tuple[bytes, str, Form], tuple[StoredAnswer, int, Answer]] = {}

    def refresh_by(self, refresher: Refresher) -> None:
        """Let `refresher` fetch what is stale; without one, stale answers are not served in advance."""
        self._refresher = refresher

    def remembered_by(self, remembering: Remembering) -> None:
        """Let `remembering` know what callers of a Model under a Release ask."""
        self._remembering = remembering

    def compared_by(self, comparing: Comparing) -> None:
        """Let `comparing` see what the versions of a Release answer."""
        self._comparing = comparing

    async def on_request(self, exchange: Exchange) -> Answer | Forward | None:
        """Serve a hit; otherwise say `miss` or `bypass` and pass on, unless the caller wants hits only."""
        policy = exchange.policy.cache
        wishes = directives(exchange)
        if policy.enabled and "no-store" not in wishes and is_shareable(exchange):
            key = question_key(exchange)
            exchange.cache_key = key
            exchange.cache_status = CacheStatus.MISS
            exchange.asked_at = self._clock()
            exchange.wants_body = True
            exchange.wants_stream = exchange.parsed.stream
            if exchange.release:
                self._tell_asked(exchange, key)
            if "refresh" not in wishes:
                hit = await self._find(exchange, key, policy)
                if hit is not None:
                    return hit
        if "only" in wishes:
            return refuse(
                504,
                Reason.NOT_CACHED,
                "There is no cached answer to this request, and the caller wants no other.",
                kind=ErrorType.SERVER,
                code="not_cached",
            )
        return None

    def _tell_asked(self, exchange: Exchange, key: bytes) -> None:
        if self._remembering is not None:
            self._remembering.asked(exchange, key)
        if self._comparing is not None:
            self._comparing.asked(exchange)

    async def _find(self, exchange: Exchange, key: bytes, policy: CachePolicy) -> Answer | None:
        purges = self._purges()
        stored = self._tiers.in_memory(key, policy.tiers, purges)
        found = Found(stored, MEMORY) if stored is not None else None
        if found is None or found.answer.fresh_until <= exchange.asked_at:
            # What is stale here may be fresh further on.
            found = (
                await self._tiers.beyond_memory(
                    key, policy.tiers, purges, partial(is_answer, exchange.parsed)
                )
                or found
            )
        if found is not None:
            hit = self._serve(exchange, key, found, policy)
            if hit is not None:
                return hit
        if policy.semantic.enabled and self._similar is not None:
            similar = await self._similar.find(exchange)
            if similar is not None:
                hit = self._hit(exchange, None, Found(similar, SEMANTIC))
                if hit is not None:
                    return hit
        self._tally.missed()
        return None

    def _serve(self, exchange: Exchange, key: bytes, found: Found, policy: CachePolicy) -> Answer | None:
        late_s = exchange.asked_at - found.answer.fresh_until
        if late_s < 0:
            return self._hit(exchange, key, found)
        stale = Found(found.answer, STALE)
        if self._refresher is not None and late_s < (policy.stale_while_revalidate_ms or 0) / 1000:
            # As it is before the hit says what became of it.
            self._refresher.refresh(key, replace(exchange))
            return self._hit(exchange, key, stale)
        if late_s < (policy.stale_if_error_ms or 0) / 1000:
            exchange.stale = found.answer
            exchange.wants_head = True
        return None

    def on_response_head(self, exchange: Exchange) -> Answer | None:
        """Put the stale answer in the place of a provider's trouble."""
        stale, response = exchange.stale, exchange.response
        if stale is None or response is None or response.status not in _TROUBLE:
            return None
        backend = exchange.backend
        hit = self._rescue(exchange, stale)
        # The provider has answered, and what it said of its quota is somebody else's to read.
        exchange.backend = backend
        return hit

    def on_answer(self, exchange: Exchange, answer: Answer) -> Answer:
        """Put the stale answer in the place of a refusal that is the provider's trouble."""
        if exchange.stale is None or answer.reason not in _HELD_BACK:
            return answer
        return self._rescue(exchange, exchange.stale) or answer

    def _rescue(self, exchange: Exchange, stale: StoredAnswer) -> Answer | None:
        hit = self._hit(exchange, None, Found(stale, STALE))
        if hit is None:
            return None
        self._tally.rescued()
        return replace(hit, reason=Reason.SERVED_STALE)

    def on_response(self, exchange: Exchange, answered: Answered) -> None:
        """Keep a whole answer that the cache was asked for and did not have.

        A stand-in's is no answer of the version that the key is for.
        """
        key, completion = exchange.cache_key, answered.completion
        if key is None or exchange.passed_over or answered.head.status != 200 or completion is None:
            return
        if not completion.answers_all_of(exchange.parsed):
            return
        now = self._clock()
        policy = exchange.policy.cache
        usage = completion.usage
        fresh_until = now + policy.ttl_ms / 1000
        kept_ms = max(policy.stale_while_revalidate_ms or 0, policy.stale_if_error_ms or 0)
        stored = StoredAnswer(
            body=answered.body,
            content_type=JSON if exchange.recorded else answered.head.headers.get("content-type", JSON),
            model=exchange.model_name,
            version=exchange.version_name,
            stored_at=now,
            expires_at=fresh_until + kept_ms / 1000,
            prompt_tokens=usage.prompt_tokens if usage is not None else 0,
            completion_tokens=usage.completion_tokens if usage is not None else 0,
            seconds=max(now - exchange.asked_at, 0.0),
            fresh_until=fresh_until,
            partition=partition(exchange),
        )
        kept = self._tiers.put(key, stored, policy.tiers, self._purges())
        if exchange.other_key is not None and self._comparing is not None:
            self._comparing.answered(exchange, stored)
        if kept and policy.semantic.enabled and self._similar is not None:
            self._similar.learn(exchange, key, stored)

    def _hit(self, exchange: Exchange, key: bytes | None, found: Found) -> Answer | None:
        """Return the answer in the form that was asked for; None when it cannot be given so."""
        stored = found.answer
        status = CacheStatus.SEMANTIC_HIT if found.tier == SEMANTIC else CacheStatus.HIT
        age_s = max(exchange.asked_at - stored.stored_at, 0.0)
        age, form = int(age_s), form_of(exchange)
        pace_ms = 0 if form is Form.JSON else exchange.policy.cache.stream_pace_ms or 0
        # Within a second, the answers to one question are one answer.
        place = (key, exchange.tier, form) if key is not None else None
        last = self._last_hits.get(place) if place is not None else None
        if last is not None and last[0] is stored and last[1] == age:
            answer = last[2]
            exchange.cache_status = status
            exchange.backend = None
        else:
            try:
                body, content_type = in_form(
                    exchange, form, stored.body, stored.content_type, pieces=_pieces(stored) if pace_ms else 1
                )
            except NotJoinable:
                return None
            exchange.cache_status = status
            exchange.backend = None
            answer = Answer(
                200,
                body,
                Reason.SERVED_FROM_CACHE,
                (
                    ("content-type", content_type),
                    ("age", str(age)),
                    *stamps(stored.model, stored.version, status),
                ),
                describe(exchange),
                pace_ms,
            )
            if place is not None and len(body) <= REMEMBERED_HIT_BYTES:
                if len(self._last_hits) >= REMEMBERED_HITS:
                    self._last_hits.clear()
                self._last_hits[place] = (stored, age, answer)
        self._tally.hit(found.tier, stored, age_s, exchange.model.prices if exchange.model else None)
        return answer

    async def close(self) -> None:
        """End what is being fetched anew, or in advance."""
        if self._refresher is not None:
            await self._refresher.close()
        if self._remembering is not None:
            await self._remembering.close()


def _pieces(stored: StoredAnswer) -> int:
    """Return in how many pieces a stream of the answer is told: about as many as the provider told it in."""
    return min(stored.completion_tokens or len(stored.body) // BYTES_PER_PIECE, PIECES_AT_MOST)
