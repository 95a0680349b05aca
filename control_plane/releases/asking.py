"""Asks Prometheus what Releases want to know, beside the runner, which takes the last answers.

Every replica asks for itself. A Prometheus that hangs delays no decision: its answers become unknown.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from control_plane.releases.queries import NOT_ASKED, Answer, counted
from control_plane.resources.kinds.release import PrometheusGate

EVERY_S: Final = 5.0
AT_ONCE: Final = 8
NONE_GIVEN: Final = Answer(None, "this control plane was given no Prometheus (--prometheus)")


class UnknownValueError(Exception):
    """There is no value; the message says why in a few words, without the query or the URL."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """The queries of one Release; `begun` says of which document."""

    begun: int
    gates: tuple[PrometheusGate, ...]


class Asking:
    """Asks every few seconds until it is stopped.

    Args:
        ask: returns the value of a query within seconds, or raises `UnknownValueError`; None asks nobody.
        wanted: the queries by Release, of those that have not ended.
        take: is given the answers by Release, in the order of its queries.
    """

    def __init__(
        self,
        ask: Callable[[str], Awaitable[float]] | None,
        wanted: Callable[[], Mapping[str, Wanted]],
        take: Callable[[Mapping[str, Sequence[Answer]]], None],
        every_s: float = EVERY_S,
    ) -> None:
        self._ask = ask
        self._wanted = wanted
        self._take = take
        self._every_s = every_s
        self._room = asyncio.Semaphore(AT_ONCE)
        self._known: dict[str, tuple[int, tuple[Answer, ...]]] = {}

    async def run(self) -> None:
        """Ask until cancelled."""
        while True:
            await self.look()
            await asyncio.sleep(self._every_s)

    async def look(self) -> None:
        """Ask everything once."""
        wanted = self._wanted()
        found = await asyncio.gather(*(self._of(name, one) for name, one in wanted.items()))
        self._known = {
            name: (one.begun, answers) for (name, one), answers in zip(wanted.items(), found, strict=True)
        }
        self._take({name: answers for name, (_, answers) in self._known.items()})

    async def _of(self, name: str, wanted: Wanted) -> tuple[Answer, ...]:
        begun, before = self._known.get(name, (wanted.begun, ()))
        if begun != wanted.begun:
            before = ()
        before = (*before, *(NOT_ASKED for _ in wanted.gates))
        now = await asyncio.gather(*(self._one(gate.query) for gate in wanted.gates))
        return tuple(map(counted, wanted.gates, before, now))

    async def _one(self, query: str) -> Answer:
        if self._ask is None:
            return NONE_GIVEN
        async with self._room:
            try:
                return Answer(await self._ask(query))
            except UnknownValueError as unknown:
                return Answer(None, str(unknown))
