"""Which ports the pair takes in a pod, beside those that the pod says it uses (pure)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from control_plane.webhook.settings import ADMIN_PORT, READY_PORT, STATS_PORT

HIGHEST: Final = 65535


@dataclass(frozen=True, slots=True)
class Ports:
    """The pair's ports: proxy and admin on loopback, readiness and metrics on the pod's address."""

    proxy: int
    ready: int
    stats: int
    admin: int


def ports_for(proxy: int, taken: frozenset[int]) -> Ports:
    """Return the pair's ports with `proxy` as it is; the others move up, out of the way of `taken`."""
    used = {proxy, *taken}
    found = []
    for first in (READY_PORT, STATS_PORT, ADMIN_PORT):
        port = next(port for port in range(first, HIGHEST + 1) if port not in used)
        used.add(port)
        found.append(port)
    return Ports(proxy, *found)


def ports_of(spec: Mapping[str, Any]) -> frozenset[int]:
    """Return the ports that a pod's containers say they listen on, or are probed at."""
    containers = [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]
    return frozenset(port for container in containers for port in _ports(container))


def _ports(container: Mapping[str, Any]) -> Iterator[int]:
    for port in container.get("ports") or ():
        number = port.get("containerPort")
        if isinstance(number, int):
            yield number
    for name in ("startupProbe", "readinessProbe", "livenessProbe"):
        probe = container.get(name) or {}
        for way in ("httpGet", "tcpSocket", "grpc"):
            number = (probe.get(way) or {}).get("port")
            if isinstance(number, int):
                yield number
