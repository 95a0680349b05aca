"""What is seen of a cache, to the push protocol's messages and back (pure). Protocol: push.proto."""

from __future__ import annotations

from typing import Final

from ext_proc.contract import push_pb2
from ext_proc.contract.cache import (
    HIT_AGE_BOUNDS_S,
    CacheAnswer,
    CacheEntry,
    CacheQuestion,
    CacheStatistics,
    SemanticStatistics,
    TierStatistics,
)

MAX_ENTRIES: Final = 1_000
"""Most entries of one answer."""

MAX_BODY_BYTES: Final = 8 * 1024 * 1024
"""Larger bodies are left out, and those that would make one answer longer than that."""

_MAX_TEXT: Final = 1_024
_MAX_TIERS: Final = 16


def statistics_message(statistics: CacheStatistics, epoch: str) -> push_pb2.CacheStatistics:
    """Return the message that tells `statistics`, counted since `epoch` began."""
    semantic = statistics.semantic
    return push_pb2.CacheStatistics(
        epoch=epoch,
        tiers=[
            push_pb2.CacheTier(
                name=tier.tier,
                hits=tier.hits,
                misses=tier.misses,
                entries=tier.entries,
                bytes=tier.size_bytes,
            )
            for tier in statistics.tiers
        ],
        hits=statistics.hits,
        misses=statistics.misses,
        saved_prompt_tokens=statistics.saved_prompt_tokens,
        saved_completion_tokens=statistics.saved_completion_tokens,
        saved_cost_micros=statistics.saved_cost_micros,
        saved_ms=statistics.saved_ms,
        hit_ages=statistics.hit_ages,
        semantic_served=semantic.served,
        semantic_explored=semantic.explored,
        semantic_vetoed=semantic.vetoed,
        semantic_would_serve=semantic.would_serve,
        semantic_would_be_wrong=semantic.would_be_wrong,
    )


def statistics_of(message: push_pb2.CacheStatistics) -> CacheStatistics:
    """Return the statistics that `message` tells; what is beyond all reason in number is left out."""
    return CacheStatistics(
        tiers=tuple(
            TierStatistics(tier.name[:_MAX_TEXT], tier.hits, tier.misses, tier.entries, tier.bytes)
            for tier in message.tiers[:_MAX_TIERS]
        ),
        hits=message.hits,
        misses=message.misses,
        saved_prompt_tokens=message.saved_prompt_tokens,
        saved_completion_tokens=message.saved_completion_tokens,
        saved_cost_micros=message.saved_cost_micros,
        saved_ms=message.saved_ms,
        hit_ages=tuple(message.hit_ages[: len(HIT_AGE_BOUNDS_S) + 1]),
        semantic=SemanticStatistics(
            served=message.semantic_served,
            explored=message.semantic_explored,
            vetoed=message.semantic_vetoed,
            would_serve=message.semantic_would_serve,
            would_be_wrong=message.semantic_would_be_wrong,
        ),
    )


def question_message(question: CacheQuestion, question_id: int) -> push_pb2.Snapshot:
    """Return the message that asks `question`."""
    return push_pb2.Snapshot(
        question=push_pb2.CacheQuestion(
            id=question_id,
            kind=push_pb2.CacheQuestion.ENTRIES,
            key_prefix=question.key_prefix,
            model=question.model or "",
            tenant=question.tenant or "",
            limit=question.limit,
            bodies=question.bodies,
            after=question.after,
        )
    )


def question_of(message: push_pb2.CacheQuestion) -> CacheQuestion | None:
    """Return the question in `message`; None when it is of a kind that this build does not know."""
    if message.kind != push_pb2.CacheQuestion.ENTRIES:
        return None
    return CacheQuestion(
        key_prefix=message.key_prefix,
        model=message.model or None,
        tenant=message.tenant or None,
        after=message.after,
        limit=max(1, min(message.limit, MAX_ENTRIES)),
        bodies=message.bodies,
    )


def answer_message(answer: CacheAnswer, question_id: int, *, partial: bool = False) -> push_pb2.CacheAnswer:
    """Return the message that answers the question with that id; `partial`: somebody else did not answer."""
    room = MAX_BODY_BYTES
    entries = []
    for entry in answer.entries[:MAX_ENTRIES]:
        body = entry.body if entry.body is not None and len(entry.body) <= room else None
        room -= len(body or b"")
        entries.append(
            push_pb2.CacheEntry(
                key=entry.key,
                tier=entry.tier,
                model=entry.model,
                version=entry.version,
                tenant=entry.tenant,
                age_s=entry.age_s,
                expires_s=entry.expires_s,
                fresh_s=entry.fresh_s,
                bytes=entry.size_bytes,
                hits=entry.hits,
                content_type=entry.content_type,
                body=body,
            )
        )
    more = answer.more or len(answer.entries) > MAX_ENTRIES
    return push_pb2.CacheAnswer(id=question_id, entries=entries, more=more, partial=partial)


def answer_of(message: push_pb2.CacheAnswer) -> CacheAnswer:
    """Return the answer in `message`."""
    entries = sorted((_entry(entry) for entry in message.entries[:MAX_ENTRIES]), key=lambda entry: entry.key)
    return CacheAnswer(tuple(entries), message.more)


def _entry(message: push_pb2.CacheEntry) -> CacheEntry:
    return CacheEntry(
        key=message.key[:_MAX_TEXT],
        tier=message.tier[:_MAX_TEXT],
        model=message.model[:_MAX_TEXT],
        version=message.version[:_MAX_TEXT],
        tenant=message.tenant[:_MAX_TEXT],
        age_s=message.age_s,
        expires_s=message.expires_s,
        fresh_s=message.fresh_s,
        size_bytes=message.bytes,
        hits=message.hits,
        content_type=message.content_type[:_MAX_TEXT],
        body=message.body if message.HasField("body") else None,
    )
