"""Pods that were missed: made while no webhook answered, in a namespace that wants sidecars.

The API server lets such pods in (`failurePolicy: Ignore`); a look now and then counts them.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, Protocol

from prometheus_client import Gauge
from prometheus_client.registry import Collector
from structlog.typing import FilteringBoundLogger

from control_plane.kubernetes_client import KubernetesError
from control_plane.webhook.names import INJECT
from control_plane.webhook.patch import Injection, inject
from control_plane.webhook.settings import InjectionSettings
from control_plane.webhook.shape import NotAPodError, check_pod

LOOK_EVERY_S: Final = 60.0
PAGE: Final = "500"
RUNNING: Final = ("fieldSelector", "status.phase!=Succeeded,status.phase!=Failed")


class Calls(Protocol):
    """The API server."""

    def call(
        self, method: str, path: str, *, query: Sequence[tuple[str, str]] = ()
    ) -> Awaitable[dict[str, Any]]:
        """Return the answer to one call; raises KubernetesError."""
        ...


class MissedPods:
    """Counts pods without a pair that would get one now.

    Args:
        kubernetes: the API server.
        settings: what pairs are made of.
        log: told once that pods cannot be listed.
    """

    def __init__(
        self, kubernetes: Calls, settings: Callable[[], InjectionSettings], log: FilteringBoundLogger
    ) -> None:
        self._kubernetes = kubernetes
        self._settings = settings
        self._log = log
        self._told = False
        self._gauge = Gauge(
            "outrigger_webhook_missed_pods",
            "Pods of labelled namespaces that run without the sidecar they would get now.",
            registry=None,
        )

    @property
    def series(self) -> Sequence[Collector]:
        """The metric."""
        return (self._gauge,)

    async def run(self) -> None:
        """Look again and again, until cancelled."""
        while True:
            try:
                self._gauge.set(await self.count())
                self._told = False
            except KubernetesError as error:
                if not self._told:
                    self._told = True
                    self._log.warning("pods without a sidecar cannot be counted", reason=str(error))
            await asyncio.sleep(LOOK_EVERY_S)

    async def count(self) -> int:
        """Return how many there are now.

        Raises:
            KubernetesError: they cannot be listed.
        """
        missed = 0
        async for namespace in self._items("/api/v1/namespaces", ("labelSelector", f"{INJECT}=enabled")):
            name = str(namespace["metadata"]["name"])
            async for pod in self._items(f"/api/v1/namespaces/{name}/pods", RUNNING):
                missed += self._is_missed(pod, name)
        return missed

    def _is_missed(self, pod: Mapping[str, Any], namespace: str) -> bool:
        if (pod.get("metadata") or {}).get("deletionTimestamp"):
            return False
        try:
            decided = inject(check_pod(pod), namespace, self._settings())
        except NotAPodError:
            return False
        return isinstance(decided, Injection) and decided.pair

    async def _items(self, path: str, selector: tuple[str, str]) -> AsyncIterator[dict[str, Any]]:
        """Yield every object of a collection, page by page."""
        following = ""
        while True:
            query = [selector, ("limit", PAGE), *([("continue", following)] if following else [])]
            page = await self._kubernetes.call("GET", path, query=query)
            for item in page.get("items") or ():
                yield item
            following = (page.get("metadata") or {}).get("continue") or ""
            if not following:
                return
