"""Asking a provider again behind an answer that was served, through Envoy like any other call."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from structlog.typing import FilteringBoundLogger

from ext_proc.continuation import Caller, CallFailed, read_answer
from ext_proc.exchange import Answer, Answered, Exchange, Forward

AT_ONCE: Final = 64
"""How many such calls a processor makes at the same time. What is asked beyond that is asked another time."""


class BackgroundRefresh:
    """Fetches fresh answers, each question once at a time.

    Args:
        caller: who makes the call.
        decide: the stage that says where the question goes.
        keep: told of the whole answer.
        log: where a call that fails is told.
        ended: told of the end of each call, however it ended.
        dropped: told of each call that is not made, since so many are.
    """

    def __init__(
        self,
        caller: Caller,
        decide: Callable[[Exchange], Awaitable[Answer | Forward | None]],
        keep: Callable[[Exchange, Answered], None],
        log: FilteringBoundLogger,
        *,
        ended: Callable[[Exchange], None] = lambda exchange: None,
        dropped: Callable[[], None] = lambda: None,
    ) -> None:
        self._caller = caller
        self._ended = ended
        self._dropped = dropped
        self._decide = decide
        self._keep = keep
        self._log = log
        self._asked: dict[bytes, asyncio.Task[None]] = {}

    def refresh(self, key: bytes, exchange: Exchange) -> None:
        """Ask the exchange's question in the background, unless `key` is being asked for already."""
        if key in self._asked:
            return
        if len(self._asked) >= AT_ONCE:
            self._dropped()
            return
        task = asyncio.get_running_loop().create_task(self._ask(exchange), name="refresh")
        self._asked[key] = task
        task.add_done_callback(lambda _: self._asked.pop(key, None))

    async def close(self) -> None:
        """End every call."""
        calls = list(self._asked.values())
        for task in calls:
            task.cancel()
        await asyncio.gather(*calls, return_exceptions=True)

    async def _ask(self, exchange: Exchange) -> None:
        try:
            decision = await self._decide(exchange)
            if not isinstance(decision, Forward):
                raise CallFailed("it has nowhere to go")
            exchange.forwarded = decision
            async with self._caller.call(exchange.head, decision, exchange.body) as reply:
                self._keep(exchange, await read_answer(exchange, reply))
        except CallFailed as error:
            self._log.info("a stale answer stays", reason=str(error))
        except Exception as error:
            self._log.error("refreshing failed", error=type(error).__name__, exc_info=True)
        finally:
            self._ended(exchange)
