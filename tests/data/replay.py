"""A trace through the cache stage with similar questions, and a provider that knows every answer."""

from __future__ import annotations

import random
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import sqrt
from typing import Final

import numpy as np
import orjson
import structlog

from ext_proc.answers import Clocks
from ext_proc.contract.policies import CachePolicy, Policy, SemanticPolicy
from ext_proc.exchange import Answer, Answered, CacheStatus, Exchange, ResponseHead
from ext_proc.openai.responses import parse_completion
from ext_proc.semantic.embedding import Embedder, Known, Remembering, Vectors
from ext_proc.semantic.similar import SimilarQuestions
from ext_proc.snapshots import Loaded
from ext_proc.stages.cache import Cache
from ext_proc.stores.memory import MemoryStore
from ext_proc.tally import CacheTally
from ext_proc.tiers import Tiers
from tests.data.paraphrases import Asked
from tests.unit.ext_proc.exchanges import exchange, snapshot

_MUCH: Final = 10**9
_Z95: Final = 1.959964


@dataclass(slots=True)
class Outcome:
    """What became of the questions of a trace, in one language or in all."""

    asked: int = 0
    exact: int = 0
    similar: int = 0
    wrong: int = 0

    def add(self, answered: Answer | None, asked: Asked) -> None:
        """Count one question: it was a hit with `answered`, or asked of the provider."""
        self.asked += 1
        if answered is None:
            return
        if dict(answered.headers)["x-outrigger-cache"] == CacheStatus.HIT:
            self.exact += 1
        else:
            self.similar += 1
        self.wrong += (
            orjson.loads(answered.body)["choices"][0]["message"]["content"] not in asked.fact.answers
        )


@dataclass(slots=True)
class Report:
    """What became of a trace: in all, and by language."""

    all: Outcome = field(default_factory=Outcome)
    by_language: dict[str, Outcome] = field(default_factory=dict)
    tally: CacheTally = field(default_factory=CacheTally)


async def replay(
    questions: Sequence[Asked],
    embedder: Embedder,
    max_error_rate: float,
    draw: random.Random,
    *,
    mode: str = "serve",
) -> Report:
    """Ask `questions` one after the other; the provider answers each by its fact, in the same words."""
    report, loaded = Report(), Loaded(snapshot())
    tiers = Tiers(MemoryStore(_MUCH, _MUCH, lambda: 0.0), {}, lambda: Clocks(0.0, 0.0))
    similar = SimilarQuestions(
        tiers,
        One(embedder),
        report.tally,
        clock=lambda: 0.0,
        draw=draw.random,
        log=structlog.get_logger(),
    )
    cache = Cache(tiers, lambda: 0.0, report.tally, tuple, similar)
    semantic = SemanticPolicy(enabled=True, max_error_rate=max_error_rate, mode=mode)
    policy = Policy(
        cache=CachePolicy(enabled=True, memory_entries=_MUCH, memory_bytes=_MUCH, semantic=semantic)
    )
    try:
        for asked in questions:
            one = _exchange(asked, loaded, policy)
            answer = await cache.on_request(one)
            assert answer is None or isinstance(answer, Answer)
            report.all.add(answer, asked)
            report.by_language.setdefault(asked.fact.language, Outcome()).add(answer, asked)
            if answer is None:
                cache.on_response(one, _answered(one, asked.fact.answers[0]))
                await similar.settle()
    finally:
        await similar.close()
    return report


def wilson(hits: int, of: int) -> tuple[float, float]:
    """Return the 95 % interval of a share, by Wilson's score."""
    if not of:
        return 0.0, 1.0
    share, square = hits / of, _Z95**2
    middle = (share + square / (2 * of)) / (1 + square / of)
    half = _Z95 * sqrt(share * (1 - share) / of + square / (4 * of**2)) / (1 + square / of)
    return max(middle - half, 0.0), min(middle + half, 1.0)


class One:
    """Hands out one embedder, for questions and for answers; what it has made is remembered for good."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._known = Known()

    def of_questions(self, exchange: Exchange) -> Remembering:
        """Return it."""
        return Remembering(self._embedder, self._known)

    def of_answers(self, exchange: Exchange) -> Embedder:
        """Return it."""
        return self._embedder

    def close(self) -> None:
        """Nothing is held."""


class Ngrams:
    """The baseline: signs of hashed runs of one to three characters. It knows no word of any language."""

    name = "ngrams"
    dimensions: Final = 512

    async def embed(self, texts: Sequence[str]) -> Vectors:
        """Return one row for each."""
        vectors = np.zeros((len(texts), self.dimensions), np.float32)
        for row, text in zip(vectors, texts, strict=True):
            signs = f" {text.lower()} "
            for size in (1, 2, 3):
                for begin in range(len(signs) - size + 1):
                    place = zlib.crc32(signs[begin : begin + size].encode())
                    row[place % self.dimensions] += 1 if place >> 31 else -1
        unit: Vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        return unit


def _exchange(asked: Asked, loaded: Loaded, policy: Policy) -> Exchange:
    one = exchange(document={"model": "m", "messages": [{"role": "user", "content": asked.text}]})
    one.loaded, one.policy = loaded, policy
    one.model = loaded.snapshot.models["m"]
    one.version = one.model.versions[0]
    one.backend = loaded.snapshot.backends["b"]
    return one


def _answered(one: Exchange, text: str) -> Answered:
    message = {"role": "assistant", "content": text}
    body = orjson.dumps({"choices": [{"index": 0, "finish_reason": "stop", "message": message}]})
    head = ResponseHead(200, {"content-type": "application/json"})
    return Answered(head, body, parse_completion(one.parsed.operation, body))
