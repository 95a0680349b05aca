"""The processor follows the agent: what it pushes is in force, and it is told what is still in use.

It is told what the cache does, too, and what it holds when it asks.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from typing import Final, Protocol

from structlog.typing import FilteringBoundLogger

from ext_proc.contract import push_pb2
from ext_proc.contract.cache import CacheAnswer, CacheQuestion, CacheStatistics
from ext_proc.contract.cache_wire import answer_message, statistics_message
from ext_proc.contract.comparisons import Comparison
from ext_proc.contract.comparisons_wire import comparison_messages
from ext_proc.contract.snapshot import Snapshot
from ext_proc.contract.uses import Uses, uses_message
from ext_proc.push_client import PlainDial, PushClient, Pushed, UnusableError
from ext_proc.snapshots import SnapshotHolder

RECONNECT_MAX_S: Final = 1.0
STATISTICS_EVERY_S: Final = 1.0
USES_EVERY_S: Final = 2.0


class CacheView(Protocol):
    """The cache of this processor, to look at. Neither may wait."""

    def statistics(self) -> CacheStatistics:
        """Return what it did since the process began, and holds now."""
        ...

    def entries(self, question: CacheQuestion) -> CacheAnswer:
        """Return what it keeps of what `question` asks for."""
        ...


class Subscriber:
    """Keeps `holder` at what the agent pushes, and tells the agent what is in use."""

    def __init__(
        self,
        target: str,
        subscriber_id: str,
        holder: SnapshotHolder,
        on_snapshot: Callable[[Snapshot], None],
        *,
        jitter: Callable[[], float],
        log: FilteringBoundLogger,
        cache: CacheView | None = None,
        epoch: str = "",
        on_attempt: Callable[[str, int, Mapping[str, str], str], None] | None = None,
        comparisons: Callable[[], Mapping[str, Comparison]] | None = None,
        uses: Callable[[], Uses] = dict,
    ) -> None:
        """`target` is a gRPC address; `on_snapshot` is called after each switch.

        `jitter` returns a number in [0, 1), drawn anew at each call. With a `cache` its statistics are told,
        counted since `epoch` (unique to this process) began, and questions about it are answered.
        `on_attempt` is told of attempts that the sidecar's Envoy has made: Backend, status, headers, and
        the digest of the caller's own key. `comparisons` returns what is known of Releases' versions, another
        object whenever that has changed; they are told as the statistics are.
        `uses` returns how much accounts of limits have used.
        """
        self._subscriber_id = subscriber_id
        self._holder = holder
        self._on_snapshot = on_snapshot
        self._cache = cache
        self._log = log
        self._epoch = epoch
        self._told = CacheStatistics()
        self._failed = False
        self._on_attempt = on_attempt
        nothing: Mapping[str, Comparison] = {}
        self._comparisons = comparisons if comparisons is not None else lambda: nothing
        self._told_comparisons = nothing
        self._uses = uses
        self._told_uses: Uses = {}
        self._client = PushClient(
            PlainDial(target),
            self._hello,
            self._take,
            jitter=jitter,
            log=log,
            pause_max_s=RECONNECT_MAX_S,
            standing=self._standing,
            on_question=self._answer if cache is not None else None,
            on_attempt=self._hear if on_attempt is not None else None,
        )
        holder.on_oldest_changed = self._report_oldest

    async def run(self) -> None:
        """Stay connected until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._client.run(), name="push client")
            if self._cache is not None:
                tasks.create_task(self._tell_statistics(self._cache), name="cache statistics")
            tasks.create_task(self._tell_uses(), name="uses of limits")

    async def _tell_statistics(self, cache: CacheView) -> None:
        while True:
            await asyncio.sleep(STATISTICS_EVERY_S)
            told = self._told
            report = self._counted(cache)
            if report is not None and self._told != told:
                self._client.tell(report)
            if self._comparisons() is not self._told_comparisons:
                self._client.tell(self._compared())

    async def _tell_uses(self) -> None:
        while True:
            await asyncio.sleep(USES_EVERY_S)
            uses = self._uses()
            if uses != self._told_uses:
                self._told_uses = uses
                self._client.tell(push_pb2.Report(limit_uses=uses_message(uses)))

    def _standing(self) -> Iterator[push_pb2.Report]:
        report = self._counted(self._cache) if self._cache is not None else None
        if report is not None:
            yield report
        if self._comparisons():
            yield self._compared()
        self._told_uses = self._uses()
        if self._told_uses:
            yield push_pb2.Report(limit_uses=uses_message(self._told_uses))

    def _compared(self) -> push_pb2.Report:
        found = self._told_comparisons = self._comparisons()
        releases = comparison_messages(found)
        return push_pb2.Report(comparisons=push_pb2.Comparisons(epoch=self._epoch, releases=releases))

    def _counted(self, cache: CacheView) -> push_pb2.Report | None:
        """Return what `cache` did, and remember it as told; None when it cannot be told."""
        try:
            statistics = cache.statistics()
            report = push_pb2.Report(cache_statistics=statistics_message(statistics, self._epoch))
        except Exception as error:
            # A defect; but who cannot be looked at still serves. It would be said every second.
            if not self._failed:
                self._log.error("the statistics of the cache cannot be told", error=type(error).__name__)
            self._failed = True
            return None
        self._told, self._failed = statistics, False
        return report

    def _answer(self, question_id: int, question: CacheQuestion) -> None:
        if self._cache is None:
            return
        try:
            answer = answer_message(self._cache.entries(question), question_id)
        except Exception as error:
            # A defect; but who cannot be looked at still has to follow the policy.
            self._log.error("a question about the cache cannot be answered", error=error)
            answer = answer_message(CacheAnswer(), question_id, partial=True)
        self._client.tell(push_pb2.Report(cache_answer=answer))

    def _hear(self, attempt: push_pb2.Attempt) -> None:
        if self._on_attempt is None:
            return
        try:
            self._on_attempt(attempt.backend, attempt.status, attempt.headers, attempt.key)
        except Exception as error:
            # A defect; but who cannot learn from attempts still has to follow the policy.
            self._log.error("what an attempt says cannot be taken", error=type(error).__name__)

    def _hello(self) -> push_pb2.Hello:
        current = self._holder.current
        in_force = current.snapshot.version if current is not None else ""
        return push_pb2.Hello(subscriber_id=self._subscriber_id, in_force=in_force)

    def _take(self, pushed: Pushed) -> None:
        snapshot = pushed.snapshot
        current = self._holder.current
        if current is None or current.snapshot.version != snapshot.version:
            try:
                self._holder.replace(snapshot)
            except Exception as error:
                # Whatever is wrong with it: what was in force stays so, here and in the whole fleet.
                raise UnusableError(
                    f"the processor cannot use it: {type(error).__name__}: {error}"
                ) from error
            self._on_snapshot(snapshot)
        self._report_oldest(self._holder.oldest_in_use())

    def _report_oldest(self, oldest: str) -> None:
        current = self._holder.current
        if current is not None:
            self._client.acknowledge(current.snapshot.version, oldest)
