"""Wrong tokens are told in the log: from which address, a line a minute at most, never what was shown."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from structlog.typing import FilteringBoundLogger

from control_plane.api.door import Gate
from control_plane.auth.errors import TokenRefusedError, TooManyFailuresError
from control_plane.auth.identity import Identity
from ext_proc.telemetry.throttle import Throttled

EVERY_S: Final = 60.0


class TellingGate:
    """A gate that tells whom it refused. `clock` is monotonic, in seconds."""

    def __init__(self, gate: Gate, log: FilteringBoundLogger, clock: Callable[[], float]) -> None:
        self._gate = gate
        self._warnings = Throttled(log, clock, EVERY_S)

    async def admit(self, token: bytes, source: str) -> Identity:
        """Return whose `token` this is; see `Gate.admit`."""
        try:
            return await self._gate.admit(token, source)
        except (TokenRefusedError, TooManyFailuresError):
            self._warnings.warning("a wrong token was shown", key=source, source=source)
            raise

    async def holder(self, token_id: str) -> Identity:
        """Return who holds the token with this id; see `Gate.holder`."""
        return await self._gate.holder(token_id)
