"""A circuit breaker: a neighbour that fails is left alone for a while (pure, time passed in)."""

from __future__ import annotations

from typing import Final

FIRST_PAUSE_S: Final = 1.0
LONGEST_PAUSE_S: Final = 10.0


class Breaker:
    """Says whether the neighbour may be asked. After a failure it is not, for a pause that doubles.

    When the pause is over, one call is let through: it closes the breaker or opens it again.
    """

    __slots__ = ("_open_until", "_pause_s", "_trying")

    def __init__(self) -> None:
        self._open_until: float | None = None
        self._pause_s = FIRST_PAUSE_S
        self._trying = False

    @property
    def is_open(self) -> bool:
        """Whether the last call failed."""
        return self._open_until is not None

    def allows(self, now: float) -> bool:
        """Say whether a call may be made. Tell how each one ended."""
        if self._open_until is None:
            return True
        if self._trying or now < self._open_until:
            return False
        self._trying = True
        return True

    def gave_up(self) -> None:
        """Take notice of a call that was not finished: the next one may try."""
        self._trying = False

    def succeeded(self) -> bool:
        """Take notice of a call that went well; return whether the breaker was open."""
        was_open = self._open_until is not None
        self._open_until = None
        self._pause_s = FIRST_PAUSE_S
        self._trying = False
        return was_open

    def failed(self, now: float) -> bool:
        """Take notice of a call that failed; return whether the breaker was closed."""
        was_closed = self._open_until is None
        if not was_closed and not self._trying:
            return False  # begun before it opened
        if not was_closed:
            self._pause_s = min(self._pause_s * 2, LONGEST_PAUSE_S)
        self._open_until = now + self._pause_s
        self._trying = False
        return was_closed
