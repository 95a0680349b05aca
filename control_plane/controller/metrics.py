"""What the controller counts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest

_REASON: Final = ("result",)


class Metrics:
    """The controller's series, in a registry of its own."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._leads = Gauge(
            "outrigger_controller_leads", "Whether this replica leads.", registry=self._registry
        )
        self._resources = Gauge(
            "outrigger_controller_resources", "Custom resources.", ("kind",), registry=self._registry
        )
        self._broken = Counter(
            "outrigger_controller_watch_failures",
            "Lists and watches that failed; each leads to a new list.",
            ("collection", "reason"),
            registry=self._registry,
        )
        self._mirrored = Counter(
            "outrigger_controller_mirror_calls",
            "Calls to the control plane: tell what is wanted, ask what is in force.",
            ("call", "result"),
            registry=self._registry,
        )
        self._written = Counter(
            "outrigger_controller_status_writes", "Statuses written.", _REASON, registry=self._registry
        )

    def leads(self, leads: bool) -> None:
        """Say whether this replica leads."""
        self._leads.set(int(leads))

    def resources(self, kind: str, number: int) -> None:
        """Say how many resources there are of a kind."""
        self._resources.labels(kind).set(number)

    def broken(self, collection: str) -> Callable[[str], None]:
        """Return what counts the failures of a collection by their reason."""
        return lambda reason: self._broken.labels(collection, reason).inc()

    def mirrored(self, call: str, result: str) -> None:
        """Count a call to the control plane."""
        self._mirrored.labels(call, result).inc()

    def written(self, result: str) -> None:
        """Count the writing of a status."""
        self._written.labels(result).inc()

    def text(self) -> bytes:
        """Return every series as Prometheus reads it."""
        return generate_latest(self._registry)
