"""The rows of similar questions: what a Zipf trace gains, whether the bound holds, what a lookup costs."""

from __future__ import annotations

import asyncio
import random
import statistics
import time
from collections.abc import Sequence

import numpy as np
import structlog

from ext_proc.semantic.embedding import Embedder, EmbeddingFailed, Vectors
from ext_proc.semantic.index import VectorIndex
from ext_proc.semantic.judge import is_same
from ext_proc.semantic.local import LocalEmbedder
from ext_proc.semantic.marks import read_marks
from tests.bench.measure import Effort, Row
from tests.data.paraphrases import facts, trace
from tests.data.replay import Ngrams, Outcome, Report, replay, wilson

QUESTIONS = 10_000
BOUNDS = (0.01, 0.05)
JUDGED_FACTS = 20
ENTRIES = 100_000
LOOKUP_MS = 5.0


def measure_semantic(effort: Effort) -> list[Row]:
    """Return every row. A quick run takes the baseline's vectors on a shorter trace."""
    rows = [_lookup(), *asyncio.run(_local())]
    embedders: list[tuple[Embedder, int]] = [(Ngrams(), QUESTIONS)]
    if effort.rounds > 2:
        embedders.insert(0, (LocalEmbedder(structlog.get_logger()), QUESTIONS))
    for embedder, length in embedders:
        made = Made(embedder)
        for bound in BOUNDS:
            try:
                report = asyncio.run(_replayed(made, length, bound))
            except EmbeddingFailed as error:
                rows.append(Row(f"similar, {embedder.name}", "", str(error), None))
                break
            rows += _trace_rows(embedder.name, bound, report)
    return rows


class Made:
    """An embedder that has made all vectors of a trace before: its own time is another row's."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._vectors: dict[str, Vectors] = {}
        self.name = embedder.name

    async def make(self, texts: Sequence[str]) -> None:
        """Make those that are not there yet."""
        for text in texts:
            if text not in self._vectors:
                self._vectors[text] = (await self._embedder.embed((text,)))[0]

    async def embed(self, texts: Sequence[str]) -> Vectors:
        """Return what was made; what was not is made now."""
        await self.make(texts)
        return np.stack([self._vectors[text] for text in texts])


async def _replayed(made: Made, length: int, bound: float) -> Report:
    questions = trace(length, random.Random(1))
    await made.make([asked.text for asked in questions])
    return await replay(questions, made, bound, random.Random(2))


def _trace_rows(name: str, bound: float, report: Report) -> list[Row]:
    rows = []
    outcomes: dict[str, Outcome] = {"all": report.all, **report.by_language}
    for language, outcome in outcomes.items():
        low, high = wilson(outcome.wrong, outcome.similar)
        false_ratio = outcome.wrong / outcome.similar if outcome.similar else 0.0
        hits = outcome.exact + outcome.similar
        rows.append(
            Row(
                f"similar, {name}, {language}",
                f"false hits ≤ {bound:.0%}",
                f"hits {hits / outcome.asked:.1%} (exact {outcome.exact / outcome.asked:.1%}, "
                f"similar {outcome.similar / outcome.asked:.1%}), "
                f"false {outcome.wrong} of {outcome.similar}: {false_ratio:.2%} [{low:.2%}, {high:.2%}]",
                false_ratio <= bound,
                {"hit_ratio": hits / outcome.asked, "false_ratio": false_ratio, "wilson_high": high},
            )
        )
    return rows


def _lookup() -> Row:
    """Measure a lookup among many vectors that lie as an embedder's do: in bundles, all much the same way."""
    draw, dimensions = np.random.default_rng(0), 384
    bundles = draw.normal(size=(3_000, dimensions)) + 3 * draw.normal(size=dimensions)
    index = VectorIndex(dimensions)
    for number in range(ENTRIES):
        vector = bundles[number % len(bundles)] + draw.normal(size=dimensions) * 0.5
        index.put(number.to_bytes(4), (vector / np.linalg.norm(vector)).astype(np.float32))
    times = []
    for bundle in bundles[:300]:
        asked = (bundle / np.linalg.norm(bundle)).astype(np.float32)
        began = time.perf_counter()
        index.nearest(asked, 8)
        times.append((time.perf_counter() - began) * 1000)
    p50, p99 = statistics.median(times), statistics.quantiles(times, n=100)[98]
    return Row(
        f"similar: lookup among {ENTRIES:,}",
        f"p50 ≤ {LOOKUP_MS:g} ms",
        f"p50 {p50:.2f} ms, p99 {p99:.2f} ms",
        p50 <= LOOKUP_MS,
        {"p50_ms": p50, "p99_ms": p99},
    )


async def _local() -> list[Row]:
    """Measure the local model: what a vector takes, how long the loop stands still, and it as a judge."""
    embedder = LocalEmbedder(structlog.get_logger())
    texts = [fact.wordings[0] for fact in (*facts("en")[:40], *facts("zh")[:40])]
    try:
        await embedder.embed(texts[:1])
    except EmbeddingFailed as error:
        return [Row("similar: local vector", "", str(error), None)]
    rows = [await _stalls(embedder, texts), await _judge(embedder)]
    embedder.close()
    return rows


async def _judge(embedder: LocalEmbedder) -> Row:
    """Let it judge answers that say the same in other words, and answers about two things."""
    draw = random.Random(1)
    same = other = pairs = 0
    for language in ("en", "zh"):
        known = facts(language)
        for place in draw.sample(range(len(known) - 1), JUDGED_FACTS):
            mine, next_one = known[place].answers, known[place + 1].answers
            for one, two in ((0, 1), (0, 2), (1, 2)):
                pairs += 1
                same += await is_same(mine[one], mine[two], embedder)
                other += await is_same(mine[one], next_one[two], embedder)
    return Row(
        "similar: the judge",
        "takes no two for one",
        f"{same} of {pairs} in other words, {other} of {pairs} about two things are taken for the same",
        other == 0,
        {"same": same / pairs, "other": other / pairs},
    )


async def _stalls(embedder: LocalEmbedder, texts: Sequence[str]) -> Row:
    idle = await _longest_stalls(asyncio.sleep(1.0))
    times: list[float] = []

    async def embed_all() -> None:
        for text in texts:
            began = time.perf_counter()
            await embedder.embed((text,))
            times.append((time.perf_counter() - began) * 1000)

    busy = await _longest_stalls(embed_all())
    began = time.perf_counter()
    for text in texts:
        read_marks(text)
    marks_ms = (time.perf_counter() - began) / len(texts) * 1000
    return Row(
        "similar: local vector",
        "",
        f"p50 {statistics.median(times):.1f} ms in its thread; the loop is late by {busy[0]:.2f} ms (p99), "
        f"{busy[1]:.2f} ms (longest); idle {idle[0]:.2f}, {idle[1]:.2f} ms; marks {marks_ms:.2f} ms",
        None,
        {"vector_ms": statistics.median(times), "stall_p99_ms": busy[0], "marks_ms": marks_ms},
    )


async def _longest_stalls(work: object) -> tuple[float, float]:
    """Return by how much the loop is late (ms) while `work` runs: the 99th percentile and the worst."""
    task = asyncio.ensure_future(work)  # type: ignore[call-overload]
    late = []
    while not task.done():
        began = time.perf_counter()
        await asyncio.sleep(0.001)
        late.append((time.perf_counter() - began - 0.001) * 1000)
    await task
    return statistics.quantiles(late, n=100)[98], max(late)
