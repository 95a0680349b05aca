"""Asking a neighbour that may be away: calls have a deadline, and one that fails is left alone for a while.

When the pause is over, a call of our own in the background finds out whether it is back, so that nobody's
request pays for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from structlog.typing import FilteringBoundLogger

from ext_proc.stores.breaker import Breaker
from ext_proc.stores.outlasting import Calls

T = TypeVar("T")

# A slow moment happens to anybody; so many in a row are the neighbour's own.
LATE_IN_A_ROW: Final = 3
# A deadline that this process itself noticed so late says little of the neighbour: so many say as much.
BUSY_S: Final = 0.005
LATE_WHEN_BUSY: Final = 6
# What a new connection may take.
CONNECT_WITHIN_S: Final = 0.25
CLOSE_WITHIN_S: Final = 0.25


class Away(Exception):
    """The neighbour does not answer, or not in time."""


class ToldBreaker:
    """A breaker that tells the log when it opens and when it closes, each once.

    Args:
        clock: seconds, of any beginning.
        log: where it is told.
        opens: what is said when it opens.
        closes: what is said when it closes.
    """

    __slots__ = ("_breaker", "_clock", "_closes", "_log", "_opens", "failures")

    def __init__(
        self, clock: Callable[[], float], log: FilteringBoundLogger, opens: str, closes: str
    ) -> None:
        self._breaker = Breaker()
        self._clock = clock
        self._log = log
        self._opens = opens
        self._closes = closes
        self.failures = 0

    @property
    def is_open(self) -> bool:
        """Whether the last call failed."""
        return self._breaker.is_open

    def allows(self) -> bool:
        """Say whether a call may be made. Tell how each one ended."""
        return self._breaker.allows(self._clock())

    def gave_up(self) -> None:
        """Take notice of a call that was not finished."""
        self._breaker.gave_up()

    def succeeded(self) -> None:
        """Take notice of a call that went well."""
        if self._breaker.succeeded():
            self._log.warning(self._closes)

    def failed(self, error: BaseException) -> None:
        """Take notice of a call that failed. Only the kind of the error is told, never its words."""
        self.failures += 1
        if self._breaker.failed(self._clock()):
            self._log.warning(self._opens, error=kind_of(error))


class Neighbour:
    """Somebody outside the process. For one event loop.

    Args:
        probe: any call that shows that it answers.
        within_s: what a call may take, its turn included, unless told otherwise.
        at_once: how many calls are made at the same time; the others wait for their turn.
        clock: seconds, of any beginning.
        log: where trouble is told, once when it begins and once when it is over.
        opens: what is said when it begins.
        closes: what is said when it is over.
    """

    def __init__(
        self,
        probe: Callable[[], Awaitable[object]],
        *,
        within_s: float,
        at_once: int,
        clock: Callable[[], float],
        log: FilteringBoundLogger,
        opens: str,
        closes: str,
    ) -> None:
        self._probe = probe
        self._within_s = within_s
        self._breaker = ToldBreaker(clock, log, opens, closes)
        self._turns = asyncio.Semaphore(at_once)
        self._calls = Calls()
        self._late = 0.0
        self._probing: asyncio.Task[None] | None = None

    @property
    def failures(self) -> int:
        """How many calls failed, or were late so often that they count."""
        return self._breaker.failures

    def is_away(self) -> bool:
        """Say whether it is left alone now; when it is time, a probe begins in the background."""
        if not self._breaker.is_open:
            return False
        if self._breaker.allows():
            self._probing = asyncio.get_running_loop().create_task(self._try(), name="probe")
        return True

    async def ask(self, call: Callable[[], Awaitable[T]], within_s: float | None = None) -> T:
        """Return what `call` returns. A call that is late goes on until it ends, and its caller does not.

        Raises:
            Away: it failed, is not answered within `within_s`, or is not made at all.
        """
        if self.is_away():
            raise Away
        within_s = self._within_s if within_s is None else within_s
        now = asyncio.get_running_loop().time
        deadline = begun = now() + within_s

        async def called() -> T:
            nonlocal begun
            async with self._turns:
                begun = now()
                if begun >= deadline:
                    raise Away
                return await call()

        try:
            async with asyncio.timeout_at(deadline):
                answer = await self._calls.outlast(called())
        except TimeoutError as error:
            if now() < deadline:
                self._breaker.failed(error)  # the client's own
            elif deadline - begun > within_s / 2:  # a turn that came late says nothing of the neighbour
                self._was_late(error, busy=now() - deadline > BUSY_S)
            raise Away from error
        except Away:
            raise
        except Exception as error:
            # Whatever the client makes of a broken server: nobody's request fails by it.
            self._breaker.failed(error)
            raise Away from error
        self._late = 0.0
        return answer

    def failed(self, error: BaseException) -> None:
        """Take notice of a call that was not made by `ask`, and failed."""
        if not self._breaker.is_open:
            self._breaker.failed(error)

    async def close(self) -> None:
        """End the probe, and wait a moment for calls that are late."""
        if self._probing is not None:
            self._probing.cancel()
            await asyncio.gather(self._probing, return_exceptions=True)
        await self._calls.close(CLOSE_WITHIN_S)

    def _was_late(self, error: TimeoutError, *, busy: bool) -> None:
        self._late += 1 / (LATE_WHEN_BUSY if busy else LATE_IN_A_ROW)
        if self._late > 0.99:
            self._late = 0.0
            self._breaker.failed(error)

    async def _try(self) -> None:
        try:
            # Connected, it must be quick enough too, or it is asked and left again for ever.
            for within_s in (CONNECT_WITHIN_S, self._within_s):
                async with asyncio.timeout(within_s):
                    await self._calls.outlast(self._probed())
        except asyncio.CancelledError:
            self._breaker.gave_up()
            raise
        except Exception as error:
            self._breaker.failed(error)
        else:
            self._breaker.succeeded()

    async def _probed(self) -> None:
        await self._probe()


def kind_of(error: BaseException) -> str:
    """Return what kind of error it is, in one word that quotes nothing of it."""
    cause = getattr(error, "orig", None) or error
    named = getattr(cause, "sqlite_errorname", None)
    return named if isinstance(named, str) else type(cause).__name__
