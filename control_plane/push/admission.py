"""Who may join the push stream, and for how long: tokens at the door, looked at again while they are in use.

Knows neither gRPC nor where tokens are kept.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Final

from structlog.typing import FilteringBoundLogger

from control_plane.push.sidecars import Identity

CHECK_EVERY_S: Final = 1.0
BEARER: Final = "bearer "


@dataclass(frozen=True, slots=True)
class Pass:
    """A token may join. What it says of who shows it counts above what they say; None says nothing.

    It is looked at again at each `every`-th look: where each sidecar has a token of its own, they are many.
    """

    sidecar: str | None = None
    workload: str | None = None
    labels: Mapping[str, str] | None = None
    every: int = 1

    def applied_to(self, said: Identity) -> Identity:
        """Return who it is that `said` so."""
        return replace(
            said,
            sidecar=said.sidecar if self.sidecar is None else self.sidecar,
            workload=said.workload if self.workload is None else self.workload,
            labels=said.labels if self.labels is None else self.labels,
        )


MayJoin = Callable[[str, str], Awaitable[Pass | None]]
"""From a token and the address it was shown from ("": it is looked at again) to its pass, if it may join."""


class NotAdmittedError(Exception):
    """The token may not join."""


class NotCheckedError(Exception):
    """Whether the token may join cannot be found out now."""


def bearer(authorization: str) -> str:
    """Return the token of an `authorization` value; "" when it is of another form."""
    if authorization[: len(BEARER)].lower() != BEARER:
        return ""
    return authorization[len(BEARER) :].strip()


class Admission:
    """Lets streams in by their tokens, and tells them to leave once their token may not join any more.

    Args:
        may_join: says whether a token may join. What it raises is told, and lets nobody in or out.
        log: where trouble is told; never a token.
        check_every_s: how often the tokens in use are looked at again.
    """

    def __init__(
        self, may_join: MayJoin, log: FilteringBoundLogger, check_every_s: float = CHECK_EVERY_S
    ) -> None:
        self._may_join = may_join
        self._log = log
        self._check_every_s = check_every_s
        self._inside: dict[str, set[Callable[[], None]]] = {}
        self._passes: dict[str, Pass] = {}
        self._asked: dict[str, asyncio.Task[Pass | None]] = {}

    def __repr__(self) -> str:
        return f"<Admission {sum(map(len, self._inside.values()))} streams, {len(self._inside)} tokens>"

    @asynccontextmanager
    async def stay(self, token: str, source: str, leave: Callable[[], None]) -> AsyncIterator[Pass]:
        """Be inside with `token`; `leave` is called when that may not be any more.

        What comes is its pass, as it was at its last look.

        Raises:
            NotAdmittedError: the token may not join.
            NotCheckedError: that cannot be found out now.
        """
        # Whole fleets share a token: who comes while another one is inside with it was checked a moment ago.
        known = self._passes.get(token) if token in self._inside else await self._ask(token, source)
        if known is None:
            raise NotAdmittedError
        streams = self._inside.setdefault(token, set())
        self._passes[token] = known
        streams.add(leave)
        try:
            yield known
        finally:
            streams.discard(leave)
            if not streams and self._inside.get(token) is streams:
                del self._inside[token]
                self._passes.pop(token, None)

    async def watch(self) -> None:
        """Look at the tokens in use again and again, until cancelled.

        No token waits for another one's look: who is asked about pods may be silent for a long time.
        """
        looks = 0
        looking: dict[str, asyncio.Task[None]] = {}
        async with asyncio.TaskGroup() as tasks:
            while True:
                await asyncio.sleep(self._check_every_s)
                looks += 1
                looking = {token: look for token, look in looking.items() if not look.done()}
                due = [token for token, known in self._passes.items() if not looks % known.every]
                for token in due:
                    if token not in looking:
                        looking[token] = tasks.create_task(self._look_again(token))

    async def _look_again(self, token: str) -> None:
        try:
            known = await self._ask(token, "")
        except NotCheckedError:
            return
        if known is None:
            self._passes.pop(token, None)
            for leave in self._inside.pop(token, set()).copy():
                leave()

    async def _ask(self, token: str, source: str) -> Pass | None:
        """Ask once, however many streams show the same token at the same time."""
        if not token:
            return None
        task = self._asked.get(token)
        if task is None:
            task = self._asked[token] = asyncio.create_task(self._checked(token, source))
            task.add_done_callback(lambda _: self._asked.pop(token, None))
        return await asyncio.shield(task)

    async def _checked(self, token: str, source: str) -> Pass | None:
        try:
            return await self._may_join(token, source)
        except Exception as error:
            self._log.error("a sidecar's token cannot be checked", error=error)
            raise NotCheckedError from error
