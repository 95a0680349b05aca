"""The processors' push server: hands them the snapshot in force and knows which ones they still use.

What they tell of their caches, and answer to questions, it hands on.

Protocol: ext_proc/contract/push.proto; the agent is its server here and its client upwards.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import deque
from collections.abc import AsyncIterator, Callable
from typing import Final, Protocol

import grpc
from structlog.typing import FilteringBoundLogger

from ext_proc.contract import push_pb2, push_pb2_grpc
from ext_proc.contract.snapshot import Snapshot, encode

MAX_WAITING: Final = 1_000
"""A processor that does not read hears of no more attempts than that."""


class CacheTellings(Protocol):
    """Where it goes what processors tell of their caches. `stream` is one connection of a processor."""

    def counted(self, stream: int, statistics: push_pb2.CacheStatistics) -> None:
        """Take what a processor's cache did and holds."""
        ...

    def answered(self, stream: int, answer: push_pb2.CacheAnswer) -> None:
        """Take a processor's answer to a question."""
        ...

    def gone(self, stream: int) -> None:
        """Learn that a processor will say no more."""
        ...


class ComparisonTellings(Protocol):
    """Where it goes what processors find out of Releases' versions, each on its `stream`."""

    def counted(self, stream: int, comparisons: push_pb2.Comparisons) -> None:
        """Take what a processor found out."""
        ...

    def gone(self, stream: int) -> None:
        """Learn that a processor will say no more."""
        ...


class UseTellings(Protocol):
    """Where it goes how much accounts of limits have used, on each processor's `stream`."""

    def counted(self, stream: int, message: push_pb2.LimitUses) -> None:
        """Take what a processor's accounts used."""
        ...

    def gone(self, stream: int) -> None:
        """Learn that a processor will say no more."""
        ...


class _Processor:
    """One connected processor. `holds` is the oldest version that an exchange in it began with."""

    def __init__(self, stream: int, hello: push_pb2.Hello) -> None:
        in_force = hello.in_force
        self.stream = stream
        self.name = hello.subscriber_id
        self.answers = hello.answers
        self.hears = hello.hears
        self.questions: deque[push_pb2.Snapshot] = deque()  # not sent yet
        self.version = in_force
        self.holds = in_force
        self.done: str | None = None  # the last version it took or refused
        self.refusal: str | None = None  # why it refused that one
        self.wake = asyncio.Event()  # something to send, or its stream has ended


class ProcessorPush(push_pb2_grpc.PolicyPushServicer):
    """Serves one snapshot to all processors.

    Args:
        log: where refusals are told.
        on_holds_changed: called when a processor may have let go of an older version.
        cache: told what processors say of their caches.
        comparisons: told what they find out of Releases' versions.
        uses: told how much accounts of limits have used.
    """

    def __init__(
        self,
        log: FilteringBoundLogger,
        on_holds_changed: Callable[[], None],
        cache: CacheTellings | None = None,
        comparisons: ComparisonTellings | None = None,
        uses: UseTellings | None = None,
    ) -> None:
        self._log = log
        self._on_holds_changed = on_holds_changed
        self._cache = cache
        self._comparisons = comparisons
        self._uses = uses
        self._streams = itertools.count(1)
        self._current: push_pb2.Snapshot | None = None
        self._processors: list[_Processor] = []
        self._changed = asyncio.Condition()

    def __repr__(self) -> str:
        version = self._current.version if self._current is not None else None
        return f"ProcessorPush(version={version}, processors={[item.name for item in self._processors]})"

    def publish(self, snapshot: Snapshot) -> None:
        """Push `snapshot` to every processor, now and when it connects."""
        self._current = push_pb2.Snapshot(
            version=snapshot.version, revision=snapshot.revision, content=encode(snapshot)
        )
        for processor in self._processors:
            processor.wake.set()

    def withdraw(self) -> None:
        """Push nothing more until something is published."""
        self._current = None

    def ask(self, question: push_pb2.Snapshot) -> frozenset[int]:
        """Ask every processor that understands it, and return their streams; `cache` gets the answers."""
        asked = [processor for processor in self._processors if processor.answers]
        for processor in asked:
            processor.questions.append(question)
            processor.wake.set()
        return frozenset(processor.stream for processor in asked)

    def tell(self, attempt: push_pb2.Snapshot) -> None:
        """Tell every processor that understands it what an attempt came to."""
        for processor in self._processors:
            if processor.hears:
                if len(processor.questions) < MAX_WAITING:
                    processor.questions.append(attempt)
                processor.wake.set()

    async def taken(self, version: str) -> str | None:
        """Wait until every connected processor has taken `version`, and return None.

        Return the reason as soon as one refuses it.
        """
        refusals: list[str] = []

        def settled() -> bool:
            done = [item for item in self._processors if item.done == version]
            refusals.extend(item.refusal for item in done if item.refusal is not None)
            return bool(refusals) or len(done) == len(self._processors)

        async with self._changed:
            await self._changed.wait_for(settled)
        return refusals[0] if refusals else None

    def held(self) -> set[str]:
        """Return the versions that processors may still decide by."""
        return {version for item in self._processors for version in (item.version, item.holds) if version}

    async def Connect(  # noqa: N802, RUF100  (the protocol's name)
        self, reports: AsyncIterator[push_pb2.Report], context: grpc.aio.ServicerContext
    ) -> None:
        """Serve one processor until it goes away."""
        first = await anext(aiter(reports), None)
        if first is None or not first.HasField("hello"):
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "the first message must be Hello")
            return
        processor = _Processor(next(self._streams), first.hello)
        self._processors.append(processor)
        reader = asyncio.create_task(self._read(reports, processor))
        sent: push_pb2.Snapshot | None = None
        try:
            while not reader.done():
                processor.wake.clear()
                # What is in force is sent even if it is there already: the answer says what else is in use.
                if self._current is not None and self._current is not sent:
                    sent = self._current
                    await context.write(sent)
                while processor.questions:
                    await context.write(processor.questions.popleft())
                await processor.wake.wait()
            reader.result()
        finally:
            reader.cancel()
            self._processors.remove(processor)
            if self._cache is not None:
                self._cache.gone(processor.stream)
            if self._comparisons is not None:
                self._comparisons.gone(processor.stream)
            if self._uses is not None:
                self._uses.gone(processor.stream)
            self._on_holds_changed()
            await self._notify()

    async def _read(self, reports: AsyncIterator[push_pb2.Report], processor: _Processor) -> None:
        try:
            async for report in reports:
                if self._is_handed_on(report, processor):
                    continue
                if report.HasField("ack"):
                    processor.version = processor.done = report.ack.version
                    processor.refusal = None
                    processor.holds = report.ack.oldest_in_use or report.ack.version
                elif report.HasField("nack"):
                    processor.done = report.nack.version
                    processor.refusal = (
                        f"{processor.name}: {report.nack.reason or 'refused without a reason'}"
                    )
                    self._log.error(
                        "a processor refuses the snapshot",
                        processor=processor.name,
                        version=report.nack.version,
                        reason=report.nack.reason,
                    )
                self._on_holds_changed()
                await self._notify()
        finally:
            # Whoever waits for this runs in a later step of the loop, when this task is done.
            processor.wake.set()

    def _is_handed_on(self, report: push_pb2.Report, processor: _Processor) -> bool:
        kind = report.WhichOneof("kind")
        if kind == "comparisons":
            if self._comparisons is not None:
                self._comparisons.counted(processor.stream, report.comparisons)
            return True
        if kind == "limit_uses":
            if self._uses is not None:
                self._uses.counted(processor.stream, report.limit_uses)
            return True
        if kind not in ("cache_statistics", "cache_answer"):
            return False
        if self._cache is not None and kind == "cache_statistics":
            self._cache.counted(processor.stream, report.cache_statistics)
        elif self._cache is not None:
            self._cache.answered(processor.stream, report.cache_answer)
        return True

    async def _notify(self) -> None:
        async with self._changed:
            self._changed.notify_all()
