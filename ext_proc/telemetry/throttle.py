"""Repeated warnings, a handful of lines instead of one per call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Protocol

MAX_EVENTS: Final = 1_000


class Logger(Protocol):
    """What is needed of a logger."""

    def warning(self, event: str, **fields: Any) -> Any:
        """Write one line."""


class Throttled:
    """Lets each event through once per interval and says how many were held back in between.

    Events are told apart by their text and `key`, so the text must be fixed; what varies goes into fields.

    Args:
        log: where lines go (a structlog logger).
        now: a monotonic clock, in seconds.
        interval_s: the least time between two lines about the same event.
    """

    def __init__(self, log: Logger, now: Callable[[], float], interval_s: float = 10.0) -> None:
        self._log = log
        self._now = now
        self._interval_s = interval_s
        self._next: dict[tuple[str, str], float] = {}
        self._held: dict[tuple[str, str], int] = {}

    def warning(self, event: str, *, key: str = "", **fields: Any) -> None:
        """Write the warning, or count it as held back; `suppressed` on the next line is that count."""
        identity, now = (event, key), self._now()
        if now < self._next.get(identity, now):
            self._held[identity] = self._held.get(identity, 0) + 1
            return
        if len(self._next) >= MAX_EVENTS:
            self._next.clear()
            self._held.clear()
        self._next[identity] = now + self._interval_s
        suppressed = self._held.pop(identity, 0)
        if suppressed:
            fields["suppressed"] = suppressed
        self._log.warning(event, **fields)
