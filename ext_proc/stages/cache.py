"""Exact answers: the same question of the same partition and version, answered without a call.

Memory is asked first, then what processors share; what is found there fills the memory.

A stream is recorded while it passes and kept as its joined answer; a hit is given in the form that was asked
for. What may be stored is decided by the protocol code: a complete 200 with a finish reason, nothing else.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from ext_proc.answer_forms import JSON, Form, form_of, in_form
from ext_proc.answers import StoredAnswer
from ext_proc.contract.policies import CachePolicy
from ext_proc.contract.snapshot import PolicyLayer
from ext_proc.exchange import Answer, Answered, CacheStatus, Exchange, Forward, Reason, describe, stamps
from ext_proc.openai.chunks import NotJoinable
from ext_proc.openai.errors import ErrorType
from ext_proc.pipeline import PassingStage
from ext_proc.question import directives, is_shareable, question_key
from ext_proc.refusals import refuse

MEMORY: Final = "memory"
REDIS: Final = "redis"
REMEMBERED_HITS: Final = 256
REMEMBERED_HIT_BYTES: Final = 8192


class AnswerStore(Protocol):
    """Where answers are kept. Bounded; forgets by itself."""

    def get(self, key: bytes) -> StoredAnswer | None:
        """Return the answer under `key`, unless it is unknown or too old."""
        ...

    def put(self, key: bytes, answer: StoredAnswer) -> bool:
        """Keep `answer`; False when it is larger than the store."""
        ...

    def resize(self, max_entries: int, max_bytes: int) -> None:
        """Change the bounds; forgets what no longer fits."""
        ...


class SharedStore(Protocol):
    """Where processors keep answers together. Never fails: an answer that is not there in time is none."""

    async def get(self, key: bytes) -> StoredAnswer | None:
        """Return the answer under `key`."""
        ...

    def put(self, key: bytes, answer: StoredAnswer) -> None:
        """Keep `answer`, soon."""
        ...


class Cache(PassingStage):
    """Answers from the stores and fills them.

    Args:
        store: this processor's memory.
        clock: a monotonic time in seconds.
        shared: what processors have in common, None without it.
    """

    name = "cache"
    reasons = frozenset((Reason.NOT_CACHED,))

    def __init__(
        self, store: AnswerStore, clock: Callable[[], float], shared: SharedStore | None = None
    ) -> None:
        self._store = store
        self._clock = clock
        self._shared = shared
        self._version_in_force = ""
        self._last_hits: dict[tuple[bytes, str, Form], tuple[StoredAnswer, int, Answer]] = {}

    async def on_request(self, exchange: Exchange) -> Answer | Forward | None:
        """Serve a hit; otherwise say `miss` or `bypass` and pass on, unless the caller wants hits only."""
        policy = exchange.policy.cache
        wishes = directives(exchange)
        if policy.enabled and "no-store" not in wishes and is_shareable(exchange):
            self._follow_bounds(exchange)
            key = question_key(exchange)
            exchange.cache_key = key
            exchange.cache_status = CacheStatus.MISS
            exchange.wants_body = True
            exchange.wants_stream = exchange.parsed.stream
            if "refresh" not in wishes:
                stored = self._store.get(key) if MEMORY in policy.tiers else None
                if stored is None and self._shared is not None and REDIS in policy.tiers:
                    stored = await self._shared.get(key)
                    if stored is not None and MEMORY in policy.tiers:
                        self._store.put(key, stored)
                if stored is not None:
                    hit = self._hit(exchange, key, stored)
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

    def on_response(self, exchange: Exchange, answered: Answered) -> None:
        """Keep a complete answer that the cache was asked for and did not have."""
        key, completion = exchange.cache_key, answered.completion
        if key is None or answered.head.status != 200 or completion is None or not completion.complete:
            return
        now = self._clock()
        policy = exchange.policy.cache
        stored = StoredAnswer(
            body=answered.body,
            content_type=JSON if exchange.recorded else answered.head.headers.get("content-type", JSON),
            model=exchange.model.name if exchange.model else exchange.asked_model,
            version=exchange.version.name if exchange.version else "",
            stored_at=now,
            expires_at=now + policy.ttl_ms / 1000,
        )
        if MEMORY in policy.tiers:
            self._store.put(key, stored)
        if self._shared is not None and REDIS in policy.tiers:
            self._shared.put(key, stored)

    def _hit(self, exchange: Exchange, key: bytes, stored: StoredAnswer) -> Answer | None:
        """Return the answer in the form that was asked for; None when it cannot be given so."""
        age = max(int(self._clock() - stored.stored_at), 0)
        form = form_of(exchange)
        # Within a second, the answers to one question are one answer.
        place = (key, exchange.tier, form)
        last = self._last_hits.get(place)
        if last is not None and last[0] is stored and last[1] == age:
            exchange.cache_status = CacheStatus.HIT
            exchange.backend = None
            return last[2]
        try:
            body, content_type = in_form(exchange, form, stored.body, stored.content_type)
        except NotJoinable:
            return None
        exchange.cache_status = CacheStatus.HIT
        exchange.backend = None
        answer = Answer(
            200,
            body,
            Reason.SERVED_FROM_CACHE,
            (
                ("content-type", content_type),
                ("age", str(age)),
                *stamps(stored.model, stored.version, CacheStatus.HIT),
            ),
            describe(exchange),
        )
        if len(body) <= REMEMBERED_HIT_BYTES:
            if len(self._last_hits) >= REMEMBERED_HITS:
                self._last_hits.clear()
            self._last_hits[place] = (stored, age, answer)
        return answer

    def _follow_bounds(self, exchange: Exchange) -> None:
        """The store is one for the workload: as large as the largest bound that any Policy sets."""
        snapshot = exchange.loaded.snapshot
        if snapshot.version == self._version_in_force:
            return
        self._version_in_force = snapshot.version
        entries = _largest(snapshot.policies, "cache.memory_entries", CachePolicy().memory_entries)
        size = _largest(snapshot.policies, "cache.memory_bytes", CachePolicy().memory_bytes)
        self._store.resize(entries, size)


def _largest(layers: tuple[PolicyLayer, ...], setting: str, default: int) -> int:
    values = [value for layer in layers if isinstance(value := layer.settings.get(setting), int)]
    return max(values, default=default)
