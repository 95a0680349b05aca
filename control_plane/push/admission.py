"""Who may join the push stream, and for how long: tokens at the door, looked at again while they are in use.

Knows neither gRPC nor where tokens are kept.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final

from structlog.typing import FilteringBoundLogger

CHECK_EVERY_S: Final = 1.0
BEARER: Final = "bearer "

MayJoin = Callable[[str, str], Awaitable[bool]]
"""From a token and the address it was shown from ("": it is looked at again) to whether it may join now."""


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
        self._asked: dict[str, asyncio.Task[bool]] = {}

    def __repr__(self) -> str:
        return f"<Admission {sum(map(len, self._inside.values()))} streams, {len(self._inside)} tokens>"

    @asynccontextmanager
    async def stay(self, token: str, source: str, leave: Callable[[], None]) -> AsyncIterator[None]:
        """Be inside with `token`; `leave` is called when that may not be any more.

        Raises:
            NotAdmittedError: the token may not join.
            NotCheckedError: that cannot be found out now.
        """
        # Whole fleets share a token: who comes while another one is inside with it was checked a moment ago.
        if token not in self._inside and not await self._ask(token, source):
            raise NotAdmittedError
        streams = self._inside.setdefault(token, set())
        streams.add(leave)
        try:
            yield
        finally:
            streams.discard(leave)
            if not streams and self._inside.get(token) is streams:
                del self._inside[token]

    async def watch(self) -> None:
        """Look at the tokens in use again and again, until cancelled."""
        while True:
            await asyncio.sleep(self._check_every_s)
            for token in list(self._inside):
                try:
                    stays = await self._ask(token, "")
                except NotCheckedError:
                    continue
                if not stays:
                    for leave in self._inside.pop(token, set()).copy():
                        leave()

    async def _ask(self, token: str, source: str) -> bool:
        """Ask once, however many streams show the same token at the same time."""
        if not token:
            return False
        task = self._asked.get(token)
        if task is None:
            task = self._asked[token] = asyncio.create_task(self._checked(token, source))
            task.add_done_callback(lambda _: self._asked.pop(token, None))
        return await asyncio.shield(task)

    async def _checked(self, token: str, source: str) -> bool:
        try:
            return await self._may_join(token, source)
        except Exception as error:
            self._log.error("a sidecar's token cannot be checked", error=error)
            raise NotCheckedError from error
