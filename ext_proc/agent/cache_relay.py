"""What the control plane sees of this sidecar's cache: its processors' statistics as one, and their answers.

A processor that died takes its answers with it, and what it counted stays counted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final, Protocol

from ext_proc.contract import push_pb2
from ext_proc.contract.cache import (
    CacheAnswer,
    CacheQuestion,
    CacheStatistics,
    gathered,
    merged_statistics,
)
from ext_proc.contract.cache_wire import (
    answer_message,
    answer_of,
    question_message,
    statistics_message,
    statistics_of,
)

ANSWER_WITHIN_S: Final = 1.5
"""How long processors have for an answer: less than the control plane waits."""

TELL_EVERY_S: Final = 2.0
MAX_OPEN: Final = 16


class Asked(Protocol):
    """The processors, as `processors.ProcessorPush` asks them."""

    def ask(self, question: push_pb2.Snapshot) -> frozenset[int]:
        """Ask those that understand it; return their streams."""
        ...


@dataclass(slots=True)
class _Open:
    """A question that is being answered."""

    left: set[int]
    answers: list[CacheAnswer] = field(default_factory=list)
    partial: bool = False
    done: asyncio.Event = field(default_factory=asyncio.Event)


class CacheRelay:
    """Between the processors of one sidecar and its control plane.

    Args:
        tell: the way up.
        epoch: unique to this process.
    """

    def __init__(self, tell: Callable[[push_pb2.Report], None], epoch: str) -> None:
        self._tell = tell
        self._epoch = epoch
        self._processors: Asked | None = None
        # By processor's epoch; one that connects again goes on counting where it was.
        self._counted: dict[str, CacheStatistics] = {}
        self._epochs: dict[int, str] = {}
        self._past = CacheStatistics()
        self._told = CacheStatistics()
        self._open: dict[int, _Open] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def __repr__(self) -> str:
        return f"<CacheRelay {len(self._epochs)} processors, {len(self._open)} questions>"

    def use(self, processors: Asked) -> None:
        """Ask `processors` from now on."""
        self._processors = processors

    def counted(self, stream: int, statistics: push_pb2.CacheStatistics) -> None:
        """Take what a processor's cache did and holds."""
        epoch = statistics.epoch or f"stream {stream}"
        self._epochs[stream] = epoch
        self._counted[epoch] = statistics_of(statistics)

    def answered(self, stream: int, answer: push_pb2.CacheAnswer) -> None:
        """Take a processor's answer; one that nobody waits for any more is nothing."""
        waiting = self._open.get(answer.id)
        if waiting is not None and stream in waiting.left:
            waiting.answers.append(answer_of(answer))
            waiting.partial |= answer.partial
            self._settle(waiting, stream)

    def gone(self, stream: int) -> None:
        """Learn that a processor will say no more on this stream."""
        for waiting in self._open.values():
            if stream in waiting.left:
                waiting.partial = True
                self._settle(waiting, stream)
        epoch = self._epochs.pop(stream, None)
        if epoch is not None and epoch not in self._epochs.values():
            self._counted[epoch] = self._counted[epoch].of_the_past()
            self._forget()

    def ask(self, question_id: int, question: CacheQuestion) -> None:
        """Have the processors answer, and tell it in time."""
        if len(self._open) >= MAX_OPEN or self._processors is None or question_id in self._open:
            self._tell(_report(CacheAnswer(), question_id, partial=True))
            return
        waiting = _Open(set(self._processors.ask(question_message(question, question_id))))
        self._open[question_id] = waiting
        task = asyncio.create_task(self._answer(question_id, question, waiting))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def statistics(self) -> CacheStatistics:
        """Return what the caches of all processors did since this process began, and hold now."""
        return merged_statistics([self._past, *self._counted.values()])

    def standing(self) -> Iterator[push_pb2.Report]:
        """Yield what a new connection is to be told."""
        self._told = self.statistics()
        yield push_pb2.Report(cache_statistics=statistics_message(self._told, self._epoch))

    async def run(self) -> None:
        """Tell what is new until cancelled; then answer no more either."""
        try:
            while True:
                await asyncio.sleep(TELL_EVERY_S)
                if self.statistics() != self._told:
                    for report in self.standing():
                        self._tell(report)
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _answer(self, question_id: int, question: CacheQuestion, waiting: _Open) -> None:
        try:
            if waiting.left:
                async with asyncio.timeout(ANSWER_WITHIN_S):
                    await waiting.done.wait()
        except TimeoutError:
            waiting.partial = True
        finally:
            del self._open[question_id]
        self._tell(_report(gathered(waiting.answers, question.limit), question_id, partial=waiting.partial))

    def _settle(self, waiting: _Open, stream: int) -> None:
        waiting.left.discard(stream)
        if not waiting.left:
            waiting.done.set()

    def _forget(self) -> None:
        """Keep one sum of processors long gone: each restart is another epoch."""
        gone = [epoch for epoch in self._counted if epoch not in self._epochs.values()]
        for epoch in gone[:-MAX_OPEN]:
            self._past = merged_statistics([self._past, self._counted.pop(epoch)])


def _report(answer: CacheAnswer, question_id: int, *, partial: bool) -> push_pb2.Report:
    return push_pb2.Report(cache_answer=answer_message(answer, question_id, partial=partial))
