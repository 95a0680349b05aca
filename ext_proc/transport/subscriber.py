"""The processor follows the agent: what it pushes is in force, and it is told what is still in use."""

from __future__ import annotations

from collections.abc import Callable

from structlog.typing import FilteringBoundLogger

from ext_proc.contract import push_pb2
from ext_proc.contract.snapshot import Snapshot
from ext_proc.push_client import PlainDial, PushClient, Pushed, UnusableError
from ext_proc.snapshots import SnapshotHolder

RECONNECT_MAX_S = 1.0


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
    ) -> None:
        """`target` is a gRPC address; `on_snapshot` is called after each switch.

        `jitter` returns a number in [0, 1), drawn anew at each call.
        """
        self._subscriber_id = subscriber_id
        self._holder = holder
        self._on_snapshot = on_snapshot
        self._client = PushClient(
            PlainDial(target), self._hello, self._take, jitter=jitter, log=log, pause_max_s=RECONNECT_MAX_S
        )
        holder.on_oldest_changed = self._report_oldest

    async def run(self) -> None:
        """Stay connected until cancelled."""
        await self._client.run()

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
