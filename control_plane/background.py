"""Work beside the servers, which goes on whatever happens to one round of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Final, Protocol

AGAIN_AFTER_S: Final = 5.0

Background = Callable[[], Coroutine[Any, Any, None]]


class Log(Protocol):
    """Where trouble is told."""

    def error(self, event: str, **fields: object) -> object:
        """Tell of an error."""


async def lasting(run: Background, log: Log, again_after_s: float = AGAIN_AFTER_S) -> None:
    """Run `run` until it is done or cancelled; one that fails begins anew after a pause.

    A part handles what it foresees. What it does not must end neither the process nor, unheard, the part:
    logins that are not ended, or a certificate that is not renewed, show late.
    """
    while True:
        try:
            await run()
        except Exception as error:
            name = getattr(run, "__qualname__", type(run).__name__)
            log.error("failed, and begins anew", part=name, error=type(error).__name__, exc_info=True)
            await asyncio.sleep(again_after_s)
        else:
            return
