"""Which Backends do not know the field by which a stream's usage is asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ext_proc.contract.snapshot import Backend

REMEMBERED_S: Final = 3600.0
"""Afterwards a Backend is asked once more: a provider may have learned it."""
BACKENDS_AT_MOST: Final = 1024


class UsageRefusals:
    """Remembers them; a Backend that is changed counts as another one.

    `clock` is a monotonic time in seconds.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        # Until when it is not asked.
        self._until: dict[Backend, float] = {}

    def note(self, backend: Backend) -> None:
        """Take notice of a refusal."""
        if len(self._until) >= BACKENDS_AT_MOST:
            self._until.clear()
        self._until[backend] = self._clock() + REMEMBERED_S

    def knows(self, backend: Backend) -> bool:
        """Whether `backend` has refused it lately."""
        # Of almost every mesh there is nothing to remember, and a Backend takes time to be looked up.
        if not self._until:
            return False
        return self._until.get(backend, 0.0) > self._clock()
