"""The gRPC end of the push stream: Hello in, snapshots out, Ack and Nack in.

Protocol: ext_proc/contract/push.proto. What is sent, and to whom, is decided by `subscribers`.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator

import grpc
from structlog.typing import FilteringBoundLogger

from control_plane.push.subscribers import Identity, Subscriber, Subscribers
from ext_proc.contract import push_pb2, push_pb2_grpc

HELLO_WITHIN_S = 10.0
MAX_MESSAGE_BYTES = 64 * 1024 * 1024
MAX_REASON = 2_000

OPTIONS: tuple[tuple[str, int], ...] = (
    ("grpc.max_receive_message_length", 1024 * 1024),
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
    ("grpc.keepalive_time_ms", 20_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.so_reuseport", 0),
)


class PushAddressError(Exception):
    """The push address cannot be listened on; the message says what to do."""


class PushService(push_pb2_grpc.PolicyPushServicer):
    """One coroutine a subscriber sends; a second one reads its answers."""

    def __init__(self, subscribers: Subscribers, log: FilteringBoundLogger) -> None:
        self._subscribers = subscribers
        self._log = log

    async def Connect(
        self, request_iterator: AsyncIterator[push_pb2.Report], context: grpc.aio.ServicerContext
    ) -> AsyncIterator[push_pb2.Snapshot]:
        """Serve one stream until the subscriber goes, or connects again elsewhere."""
        identity = await self._hello(request_iterator, context)
        subscriber = self._subscribers.connect(identity)
        self._log.info("sidecar connected", sidecar=identity.subscriber_id, workload=identity.workload)
        reading = asyncio.create_task(self._read(request_iterator, subscriber))
        try:
            while subscriber.connected:
                subscriber.changed.clear()
                push = self._subscribers.next_push(subscriber)
                if push is not None:
                    yield push_pb2.Snapshot(
                        version=push.version, revision=push.revision, content=push.content
                    )
                    continue
                await subscriber.changed.wait()
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)
            self._subscribers.disconnect(subscriber)
            self._log.info("sidecar gone", sidecar=identity.subscriber_id)

    async def _hello(
        self, reports: AsyncIterator[push_pb2.Report], context: grpc.aio.ServicerContext
    ) -> Identity:
        try:
            first = await asyncio.wait_for(anext(reports), HELLO_WITHIN_S)
        except (StopAsyncIteration, TimeoutError):
            first = push_pb2.Report()
        hello = first.hello
        if first.WhichOneof("kind") != "hello" or not hello.subscriber_id:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "say Hello with a subscriber_id first")
        return Identity(hello.subscriber_id, hello.workload or "default", hello.build, hello.in_force)

    async def _read(self, reports: AsyncIterator[push_pb2.Report], subscriber: Subscriber) -> None:
        sidecar = subscriber.identity.subscriber_id
        try:
            async for report in reports:
                kind = report.WhichOneof("kind")
                if kind == "ack":
                    self._subscribers.acknowledge(subscriber, report.ack.version, report.ack.oldest_in_use)
                elif kind == "nack":
                    reason = report.nack.reason[:MAX_REASON]
                    self._subscribers.refuse(subscriber, report.nack.version, reason)
                    self._log.warning(
                        "snapshot refused", sidecar=sidecar, version=report.nack.version, reason=reason
                    )
        except grpc.RpcError as error:
            self._log.info("sidecar's stream broke", sidecar=sidecar, error=str(error)[:MAX_REASON])
        finally:
            # The subscriber said it will say no more, or is gone: the sending side ends too.
            self._subscribers.disconnect(subscriber)
            subscriber.changed.set()


class PushServer:
    """Listens for subscribers at `address`: `unix:/PATH` or `HOST:PORT`."""

    def __init__(self, subscribers: Subscribers, address: str, log: FilteringBoundLogger) -> None:
        self._address = address
        self._server = grpc.aio.server(options=OPTIONS)
        push_pb2_grpc.add_PolicyPushServicer_to_server(  # type: ignore[no-untyped-call]
            PushService(subscribers, log), self._server
        )
        self.port = 0

    async def start(self) -> None:
        """Listen.

        Raises:
            PushAddressError: the address is no address, or is in use.
        """
        if self._address.startswith("unix:"):
            # What a killed predecessor left; a live one would hold the data folder's lock.
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._address.removeprefix("unix:"))  # noqa: PTH108 - before anything is served
        try:
            self.port = self._server.add_insecure_port(self._address)
        except RuntimeError:
            self.port = 0
        if not self.port:
            raise PushAddressError(
                f"cannot listen on {self._address}; choose another address with --push-address"
            )
        await self._server.start()

    async def stop(self) -> None:
        """End every stream at once: sidecars live on what they have."""
        await self._server.stop(0)
