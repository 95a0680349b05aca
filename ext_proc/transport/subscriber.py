"""The processor's end of the push stream: the agent says which snapshot is in force.

Protocol: ext_proc/contract/push.proto. The agent may come and go; what is in force stays so.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import grpc
from structlog.typing import FilteringBoundLogger

from ext_proc.contract import push_pb2, push_pb2_grpc
from ext_proc.contract.snapshot import Snapshot, decode
from ext_proc.snapshots import SnapshotHolder
from ext_proc.transport.server import MAX_MESSAGE_BYTES

RECONNECT_BASE_S = 0.1
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
        self._target = target
        self._subscriber_id = subscriber_id
        self._holder = holder
        self._on_snapshot = on_snapshot
        self._jitter = jitter
        self._log = log
        self._reports: asyncio.Queue[push_pb2.Report] = asyncio.Queue()
        holder.on_oldest_changed = self._report_oldest

    async def run(self) -> None:
        """Stay connected until cancelled."""
        failures = 0
        while True:
            try:
                async with grpc.aio.insecure_channel(
                    self._target,
                    options=(
                        ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
                        ("grpc.use_local_subchannel_pool", 1),
                    ),
                ) as channel:
                    stub = push_pb2_grpc.PolicyPushStub(channel)  # type: ignore[no-untyped-call]
                    async for message in stub.Connect(self._outgoing()):
                        failures = 0
                        self._take(message)
            except grpc.aio.AioRpcError as error:
                self._log.debug("agent not reachable", code=error.code().name)
            failures += 1
            pause = min(RECONNECT_MAX_S, RECONNECT_BASE_S * 2 ** min(failures, 8))
            await asyncio.sleep(pause * (0.5 + self._jitter() / 2))

    async def _outgoing(self) -> AsyncIterator[push_pb2.Report]:
        # Reports of an earlier connection are void: Hello says what is in force now.
        self._reports = asyncio.Queue()
        current = self._holder.current
        in_force = current.snapshot.version if current is not None else ""
        yield push_pb2.Report(hello=push_pb2.Hello(subscriber_id=self._subscriber_id, in_force=in_force))
        while True:
            yield await self._reports.get()

    def _take(self, message: push_pb2.Snapshot) -> None:
        current = self._holder.current
        if current is None or current.snapshot.version != message.version:
            try:
                snapshot = decode(message.content)
            except ValueError as error:
                reason = f"the processor cannot read this snapshot: {error}"
                self._log.error("snapshot refused", version=message.version, error=error)
                nack = push_pb2.Nack(version=message.version, reason=reason[:2000])
                self._reports.put_nowait(push_pb2.Report(nack=nack))
                return
            self._holder.replace(snapshot)
            self._on_snapshot(snapshot)
        self._report_oldest(self._holder.oldest_in_use())

    def _report_oldest(self, oldest: str) -> None:
        current = self._holder.current
        if current is not None:
            ack = push_pb2.Ack(version=current.snapshot.version, oldest_in_use=oldest)
            self._reports.put_nowait(push_pb2.Report(ack=ack))
