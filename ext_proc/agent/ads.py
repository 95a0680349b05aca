"""The aggregated discovery service: hands Envoy the current set of resources and knows what it made of them.

The rules of the protocol are in `subscriptions`; here are the gRPC stream and the waiting. It knows nothing
of snapshots.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any

import grpc
from envoy.service.discovery.v3 import ads_pb2_grpc, discovery_pb2
from structlog.typing import FilteringBoundLogger

from ext_proc.agent.resources import TYPES, ResourceSet
from ext_proc.agent.subscriptions import Request, Subscriptions

REASON_LIMIT = 2_000


class RefusedError(Exception):
    """Envoy refuses the resources that are being served; the message is its reason."""


class _Stream:
    """One connected Envoy."""

    def __init__(self) -> None:
        self.subscriptions = Subscriptions()
        self.wake = asyncio.Event()


class DiscoveryServer(ads_pb2_grpc.AggregatedDiscoveryServiceServicer):  # type: ignore[misc]
    """Serves one `ResourceSet` to the local Envoy."""

    def __init__(self, log: FilteringBoundLogger) -> None:
        self._log = log
        self._current = ResourceSet()
        # The newest last: while an Envoy is being replaced, the new one counts.
        self._streams: list[_Stream] = []
        self._changed = asyncio.Condition()

    def __repr__(self) -> str:
        return f"DiscoveryServer(streams={len(self._streams)}, types={sorted(self._current.types)})"

    @property
    def current(self) -> ResourceSet:
        """What is served now."""
        return self._current

    @property
    def connected(self) -> bool:
        """Whether an Envoy is connected."""
        return bool(self._streams)

    def publish(self, resources: ResourceSet) -> None:
        """Serve `resources` from now on."""
        self._current = resources
        for stream in self._streams:
            stream.wake.set()

    async def accepted(self, type_urls: Iterable[str], *, if_subscribed: bool = False) -> None:
        """Wait until Envoy has acknowledged what is served of `type_urls`.

        Waits for an Envoy to connect, too. With `if_subscribed`, types that it did not ask for do not count.

        Raises:
            RefusedError: Envoy refused what is served of one of them.
        """
        wanted = list(type_urls)
        await self._until(lambda: self._all_accepted(wanted, if_subscribed))

    def _all_accepted(self, type_urls: list[str], if_subscribed: bool) -> bool:
        if not self._streams:
            return False
        subscriptions = self._streams[-1].subscriptions
        for type_url in type_urls:
            typed = self._current.types.get(type_url)
            if typed is None or (if_subscribed and not subscriptions.asks_for(type_url)):
                continue
            reason = subscriptions.refusal(type_url, typed.version)
            if reason is not None:
                raise RefusedError(reason)
            if not subscriptions.accepted(type_url, typed):
                return False
        return True

    async def _until(self, condition: Callable[[], bool]) -> None:
        async with self._changed:
            await self._changed.wait_for(condition)

    async def StreamAggregatedResources(  # noqa: N802, RUF100  (the protocol's name)
        self, requests: AsyncIterator[Any], context: grpc.aio.ServicerContext
    ) -> None:
        """Serve one Envoy until it goes away."""
        stream = _Stream()
        self._streams.append(stream)
        reader = asyncio.create_task(self._read(requests, stream))
        try:
            while not reader.done():
                stream.wake.clear()
                for response in stream.subscriptions.due(self._current):
                    typed = self._current.types[response.type_url]
                    await context.write(
                        discovery_pb2.DiscoveryResponse(
                            version_info=response.version,
                            type_url=response.type_url,
                            nonce=response.nonce,
                            resources=[typed.by_name[name] for name in response.names],
                        )
                    )
                await self._notify()
                await stream.wake.wait()
            reader.result()
        finally:
            reader.cancel()
            self._streams.remove(stream)
            await self._notify()

    async def _read(self, requests: AsyncIterator[Any], stream: _Stream) -> None:
        try:
            async for message in requests:
                error: str | None = None
                if message.HasField("error_detail"):
                    error = message.error_detail.message[:REASON_LIMIT] or "refused without a reason"
                    self._log.warning("Envoy refuses a resource", type=message.type_url, reason=error)
                if message.type_url in TYPES:
                    stream.subscriptions.on_request(
                        Request(
                            message.type_url, tuple(message.resource_names), message.response_nonce, error
                        )
                    )
                    stream.wake.set()
        finally:
            stream.wake.set()

    async def _notify(self) -> None:
        async with self._changed:
            self._changed.notify_all()
