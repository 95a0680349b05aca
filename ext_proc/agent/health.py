"""What the agent tells the control plane beside its answers: how Envoy is, and how each version does."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Final, Protocol

from ext_proc.contract import push_pb2

ENVOY_EVERY_S: Final = 1.0
STATISTICS_EVERY: Final = 5
"""Statistics are sent at every so-many-th look at Envoy, when they have changed; at each during a Release."""


class EnvoyInfo(Protocol):
    """The local Envoy's admin interface."""

    async def state(self) -> push_pb2.Envoy:
        """Return how Envoy is now."""


class Counts(Protocol):
    """The statistics of this sidecar."""

    @property
    def urgent(self) -> bool:
        """Whether somebody decides on them."""

    def report(self) -> push_pb2.Statistics:
        """Return all."""

    def news(self) -> push_pb2.Statistics | None:
        """Return all when one has changed since."""


class Health:
    """Tells news, and says it all again when a connection is new.

    Args:
        envoy: where Envoy's state is asked for.
        counts: the statistics; None when nothing is counted.
        tell: the way up.
    """

    def __init__(
        self, envoy: EnvoyInfo, counts: Counts | None, tell: Callable[[push_pb2.Report], None]
    ) -> None:
        self._envoy = envoy
        self._counts = counts
        self._tell = tell
        self._last = push_pb2.Envoy()

    def standing(self) -> Iterator[push_pb2.Report]:
        """Yield what a new connection is to be told."""
        yield push_pb2.Report(envoy=self._last)
        if self._counts is not None:
            yield push_pb2.Report(statistics=self._counts.report())

    async def run(self) -> None:
        """Look and tell until cancelled."""
        looks = 0
        while True:
            await self.look(statistics=looks % STATISTICS_EVERY == 0)
            looks += 1
            await asyncio.sleep(ENVOY_EVERY_S)

    async def look(self, *, statistics: bool) -> None:
        """Ask Envoy, and tell what is new; `statistics` too, if it is their turn."""
        state = await self._envoy.state()
        if state != self._last:
            self._last = state
            self._tell(push_pb2.Report(envoy=state))
        counts = self._counts
        news = counts.news() if counts is not None and (statistics or counts.urgent) else None
        if news is not None:
            self._tell(push_pb2.Report(statistics=news))
