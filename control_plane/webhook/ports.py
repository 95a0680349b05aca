"""Which ports the pair takes in a pod, beside those that the pod says it uses (pure)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from control_plane.webhook.settings import ADMIN_PORT, READY_PORT, STATS_PORT
from control_plane.webhook.shape import HOOKS, LISTS, PROBES, WAYS

HIGHEST: Final = 65535
OTHER_PROTOCOLS: Final = ("UDP", "SCTP")


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
    """Return the TCP ports that a pod's containers say they listen on, or are probed or called at."""
    return frozenset(
        port for kind in LISTS for container in spec.get(kind) or () for port in _ports(container)
    )


def _ports(container: Mapping[str, Any]) -> Iterator[int]:
    for port in container.get("ports") or ():
        # The pair listens on TCP alone; the same number of another protocol is another port.
        if port.get("protocol") not in OTHER_PROTOCOLS:
            yield from _number(port.get("containerPort"))
    lifecycle = container.get("lifecycle") or {}
    for reached in (*map(container.get, PROBES), *map(lifecycle.get, HOOKS)):
        for way in WAYS:
            yield from _number(((reached or {}).get(way) or {}).get("port"))


def _number(port: Any) -> Iterator[int]:
    """Yield a port that is a number; one that is a name is found where it is declared."""
    if isinstance(port, int):
        yield port
