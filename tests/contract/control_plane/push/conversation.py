"""A subscriber of the push stream whose lines the test speaks."""

from __future__ import annotations

import asyncio

import grpc

from ext_proc.contract import push_pb2, push_pb2_grpc


class Sidecar:
    """A subscriber whose lines the test speaks."""

    def __init__(self, channel: grpc.aio.Channel, metadata: tuple[tuple[str, str], ...] = ()) -> None:
        stub = push_pb2_grpc.PolicyPushStub(channel)  # type: ignore[no-untyped-call]
        self._call = stub.Connect(metadata=metadata)

    async def hello(self, name: str, workload: str = "web", *, answers: bool = False) -> None:
        """Say who is there."""
        hello = push_pb2.Hello(subscriber_id=name, workload=workload, answers=answers)
        await self._call.write(push_pb2.Report(hello=hello))

    async def receive(self) -> push_pb2.Snapshot:
        """Return the next snapshot."""
        return await asyncio.wait_for(self._call.read(), 5)

    async def ack(self, version: str) -> None:
        """Say that `version` is in force."""
        await self._call.write(push_pb2.Report(ack=push_pb2.Ack(version=version, oldest_in_use=version)))

    async def nack(self, version: str, reason: str) -> None:
        """Refuse `version`."""
        await self._call.write(push_pb2.Report(nack=push_pb2.Nack(version=version, reason=reason)))

    async def say(self, report: push_pb2.Report) -> None:
        """Send any report."""
        await self._call.write(report)

    async def details(self) -> str:
        """Return what the server said when it ended the stream."""
        return str(await asyncio.wait_for(self._call.details(), 5))

    def leave(self) -> None:
        """Go without a word."""
        self._call.cancel()

    async def code(self) -> grpc.StatusCode:
        """Return how the server ended the stream."""
        return await asyncio.wait_for(self._call.code(), 5)
