"""Answers to similar questions, and learning when one may be served. See the package for the words."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, Protocol

from structlog.typing import FilteringBoundLogger

from ext_proc.answer_forms import is_answer
from ext_proc.answers import StoredAnswer
from ext_proc.contract.snapshot import Purge
from ext_proc.exchange import Exchange
from ext_proc.semantic.eligibility import similar_question
from ext_proc.semantic.embedding import Embedder, EmbeddingFailed, Remembering, Vectors
from ext_proc.semantic.evidence import LEVELS, STILL_EXPLORED, Record, is_blameless, may_serve
from ext_proc.semantic.judge import answer_text, is_same
from ext_proc.semantic.marks import Marks, read_marks
from ext_proc.semantic.partitions import Entry, Partitions, Place
from ext_proc.semantic.veto import veto
from ext_proc.tiers import Tiers

FIND_S: Final = 0.25
"""How long a question may wait for its vector, and then for the search for others."""
LOOKED_AT: Final = 8
LEARNED_AT_ONCE: Final = 32
REMEMBERED_TRIALS: Final = 4_096
SHADOW: Final = "shadow"


class SemanticCounts(Protocol):
    """Who counts what became of questions that had a candidate. What is served, the cache counts itself."""

    def explored(self) -> None:
        """A candidate was held back: the bound is not sure to hold for it, or it is looked at once more."""
        ...

    def vetoed(self) -> None:
        """The nearest question was told apart by a veto, and no other was left."""
        ...

    def would_serve(self, *, wrong: bool | None = None) -> None:
        """In shadow mode, a candidate would have been served; `wrong`, when the provider has answered."""
        ...


class Embedders(Protocol):
    """Who makes the vectors that an exchange's Policy wants."""

    def of_questions(self, exchange: Exchange) -> Remembering | None:
        """Return who makes the vectors of questions, None where nobody does."""
        ...

    def of_answers(self, exchange: Exchange) -> Embedder | None:
        """Return who makes the vectors of answers."""
        ...

    def close(self) -> None:
        """Let go of threads."""
        ...


@dataclass(frozen=True, slots=True)
class Candidate:
    """The entry that may answer a question, and how alike they are. `servable`: the bound holds for it."""

    entry: Entry
    similarity: float
    servable: bool


@dataclass(slots=True)
class Trial:
    """A question on its way to the provider, and the candidate whose answer is to be compared."""

    place: Place
    marks: Marks
    vector: Vectors
    candidate: Candidate | None = None


class SimilarQuestions:
    """Finds and learns for the cache stage (`SimilarAnswers` there).

    Args:
        tiers: where answers are kept.
        embedders: who makes vectors.
        counts: told of every decision.
        clock: a monotonic time in seconds, the same as the answers'.
        draw: returns uniform numbers in [0, 1).
        log: where a failure in the background is told.
        purges: what is void, by the newest snapshot.
        partitions: where questions are kept.
    """

    def __init__(
        self,
        tiers: Tiers,
        embedders: Embedders,
        counts: SemanticCounts,
        *,
        clock: Callable[[], float],
        draw: Callable[[], float],
        log: FilteringBoundLogger,
        purges: Callable[[], Sequence[Purge]] = tuple,
        partitions: Partitions | None = None,
    ) -> None:
        self._tiers = tiers
        self._embedders = embedders
        self._counts = counts
        self._clock = clock
        self._draw = draw
        self._log = log
        self._purges = purges
        self._partitions = partitions if partitions is not None else Partitions()
        self._trials: OrderedDict[bytes, Trial] = OrderedDict()
        self._learning: set[asyncio.Task[None]] = set()

    async def find(self, exchange: Exchange) -> StoredAnswer | None:
        """Return an answer to be served for the exchange's question; None in shadow mode.

        Asked after an exact miss. Never fails and takes twice `FIND_S` at most, and what the tiers take.
        """
        try:
            return await self._find(exchange)
        except Exception as error:
            self._log.error("similar questions could not be found", error=type(error).__name__, exc_info=True)
            return None

    def learn(self, exchange: Exchange, key: bytes, answer: StoredAnswer) -> None:
        """Compare the provider's answer with the candidate's and keep the question, in the background.

        When too much is being learned, this one is not.
        """
        if len(self._learning) >= LEARNED_AT_ONCE:
            self._trials.pop(key, None)
            return
        task = asyncio.get_running_loop().create_task(self._learn(exchange, key, answer), name="learn")
        self._learning.add(task)
        task.add_done_callback(self._learning.discard)

    async def settle(self) -> None:
        """Wait until everything is learned."""
        await asyncio.gather(*self._learning)

    async def close(self) -> None:
        """End what is being learned, and the threads."""
        tasks = list(self._learning)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._partitions.close()
        self._embedders.close()

    async def _find(self, exchange: Exchange) -> StoredAnswer | None:
        trial = await self._trial(exchange)
        key = exchange.cache_key
        if trial is None or key is None:
            return None
        near = await self._near(trial)
        candidate = self._candidate(exchange, key, trial, near)
        answer = None
        if candidate is not None:
            answer = await self._served(exchange, trial, candidate)
        if answer is None:
            self._trials[key] = trial
            if len(self._trials) > REMEMBERED_TRIALS:
                self._trials.popitem(last=False)
        return answer

    async def _trial(self, exchange: Exchange) -> Trial | None:
        question = similar_question(exchange)
        embedder = self._embedders.of_questions(exchange) if question is not None else None
        if question is None or embedder is None:
            return None
        try:
            async with asyncio.timeout(FIND_S):
                vector = await embedder.vector(question.text)
        except (EmbeddingFailed, TimeoutError):
            return None
        return Trial((question.partition, embedder.name), read_marks(question.text), vector)

    async def _near(self, trial: Trial) -> list[tuple[Entry, float]]:
        try:
            async with asyncio.timeout(FIND_S):
                return await self._partitions.nearest(trial.place, trial.vector, LOOKED_AT)
        except TimeoutError:
            return []

    def _candidate(
        self, exchange: Exchange, key: bytes, trial: Trial, near: Sequence[tuple[Entry, float]]
    ) -> Candidate | None:
        """Return the nearest entry that no veto tells apart, and whether the bound holds for it."""
        partition = self._partitions.get(trial.place)
        if partition is None:
            return None
        vetoed = False
        for entry, similarity in near:
            if similarity < LEVELS[-1]:
                break
            # The very question is here although its answer is not: it has grown old.
            if entry.key == key:
                continue
            if veto(trial.marks, entry.marks) is None:
                bound = exchange.policy.cache.semantic.max_error_rate
                servable = may_serve(similarity, partition.tally, entry.record, bound)
                return Candidate(entry, similarity, servable)
            vetoed = True
        if vetoed:
            self._counts.vetoed()
        return None

    async def _served(self, exchange: Exchange, trial: Trial, candidate: Candidate) -> StoredAnswer | None:
        """Return the candidate's answer if it is to be served, else put the candidate on trial."""
        shadow = exchange.policy.cache.semantic.mode == SHADOW
        if candidate.servable and not shadow and self._draw() >= STILL_EXPLORED:
            answer = await self._answer_of(exchange, trial.place, candidate.entry.key)
            if answer is not None:
                self._partitions.used(trial.place, candidate.entry.key)
            return answer
        trial.candidate = candidate
        if candidate.servable and shadow:
            self._counts.would_serve()
        else:
            self._counts.explored()
        return None

    async def _answer_of(self, exchange: Exchange, place: Place, key: bytes) -> StoredAnswer | None:
        """Return the answer under `key` while it is fresh. An entry whose answer is gone goes, too."""
        is_kept = partial(is_answer, exchange.parsed)
        found = await self._tiers.find(key, exchange.policy.cache.tiers, self._purges(), is_kept)
        if found is None:
            self._partitions.remove(place, key)
            return None
        return found.answer if found.answer.fresh_until > self._clock() else None

    async def _learn(self, exchange: Exchange, key: bytes, answer: StoredAnswer) -> None:
        try:
            trial = self._trials.pop(key, None) or await self._trial(exchange)
            text = answer_text(exchange.parsed.operation, answer.body)
            if trial is None or text is None:
                return
            if trial.candidate is not None:
                await self._judge(exchange, trial, trial.candidate, text)
            self._partitions.put(trial.place, key, trial.marks, trial.vector)
        except Exception as error:
            self._log.error("a similar question was not learned", error=type(error).__name__, exc_info=True)

    async def _judge(self, exchange: Exchange, trial: Trial, candidate: Candidate, text: str) -> None:
        entry, similarity = candidate.entry, candidate.similarity
        theirs = await self._answer_of(exchange, trial.place, entry.key)
        told = answer_text(exchange.parsed.operation, theirs.body) if theirs is not None else None
        partition = self._partitions.get(trial.place)
        if told is None or partition is None:
            return
        try:
            agreed = await is_same(text, told, self._embedders.of_answers(exchange))
        except EmbeddingFailed:
            return
        # Counted for the others only where the entry might have been served.
        if is_blameless(similarity, entry.record):
            partition.tally.add(similarity, agreed=agreed)
        if entry.record is None:
            entry.record = Record()
        entry.record.add(similarity, agreed=agreed)
        if candidate.servable and exchange.policy.cache.semantic.mode == SHADOW:
            self._counts.would_serve(wrong=not agreed)
