"""The subscriber's end of a push stream: snapshots in, what became of them out.

The agent follows the control plane by it, the processor the agent. Protocol: ext_proc/contract/push.proto.
The server may come and go; nothing waits for it, and what is in force stays so.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import grpc
from structlog.typing import FilteringBoundLogger

from ext_proc.contract import push_pb2, push_pb2_grpc
from ext_proc.contract.snapshot import Snapshot, decode

RECONNECT_BASE_S = 0.1
# How long a server that starts beside us is waited for before its absence is told.
STARTUP_S = 5.0
MAX_SNAPSHOT_BYTES = 256 * 1024 * 1024
REASON_LIMIT = 2_000
CHANNEL_OPTIONS = (
    ("grpc.max_receive_message_length", MAX_SNAPSHOT_BYTES),
    # A peer that vanished without a word is noticed within half a minute.
    ("grpc.keepalive_time_ms", 20_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1_000),
)


class PushClient:
    """Stays connected to whoever pushes policy.

    Args:
        target: a gRPC target, `unix:/…` or `HOST:PORT`.
        hello: says who this is and what is in force; called at each connect.
        on_snapshot: takes a snapshot; must not block.
        jitter: a number in [0, 1), drawn anew at each call.
        log: where the connection's state is told.
        pause_max_s: the longest pause between two attempts.
    """

    def __init__(
        self,
        target: str,
        hello: Callable[[], push_pb2.Hello],
        on_snapshot: Callable[[Snapshot], None],
        *,
        jitter: Callable[[], float],
        log: FilteringBoundLogger,
        pause_max_s: float,
    ) -> None:
        self._target = target
        self._hello = hello
        self._on_snapshot = on_snapshot
        self._jitter = jitter
        self._log = log
        self._pause_max_s = pause_max_s
        self._reports: asyncio.Queue[push_pb2.Report] = asyncio.Queue()

    def acknowledge(self, version: str, oldest_in_use: str) -> None:
        """Report that `version` is in force."""
        self._reports.put_nowait(
            push_pb2.Report(ack=push_pb2.Ack(version=version, oldest_in_use=oldest_in_use))
        )

    def refuse(self, version: str, reason: str) -> None:
        """Report that `version` was refused."""
        self._reports.put_nowait(
            push_pb2.Report(nack=push_pb2.Nack(version=version, reason=reason[:REASON_LIMIT]))
        )

    async def run(self) -> None:
        """Stay connected until cancelled."""
        failures, waited_s, told = 0, 0.0, False
        while True:
            connected = False
            try:
                async with grpc.aio.insecure_channel(self._target, options=CHANNEL_OPTIONS) as channel:
                    stub = push_pb2_grpc.PolicyPushStub(channel)  # type: ignore[no-untyped-call]
                    async for message in stub.Connect(self._outgoing()):
                        connected, failures = True, 0
                        self._take(message)
                self._log.info("the push stream was ended by its server", target=self._target)
            except grpc.aio.AioRpcError as error:
                # Once, not at each attempt.
                if connected or (waited_s >= STARTUP_S and not told):
                    told = True
                    self._log.warning(
                        "the push stream is down; policy stays as it is",
                        target=self._target,
                        code=error.code().name,
                    )
            failures += 1
            pause_s = min(self._pause_max_s, RECONNECT_BASE_S * 2 ** min(failures, 8))
            pause_s *= 0.5 + self._jitter() / 2
            waited_s += pause_s
            await asyncio.sleep(pause_s)

    async def _outgoing(self) -> AsyncIterator[push_pb2.Report]:
        # Reports meant for an earlier connection are void: Hello says what is in force.
        reports: asyncio.Queue[push_pb2.Report] = asyncio.Queue()
        self._reports = reports
        yield push_pb2.Report(hello=self._hello())
        while True:
            yield await reports.get()

    def _take(self, message: push_pb2.Snapshot) -> None:
        try:
            snapshot = decode(message.content)
        except ValueError as error:
            self._log.error("what was pushed is no snapshot", version=message.version, error=error)
            self.refuse(message.version, f"this build cannot read the snapshot: {error}")
            return
        if snapshot.version != message.version:
            self.refuse(message.version, f"the snapshot inside says it is version {snapshot.version}")
            return
        self._on_snapshot(snapshot)
