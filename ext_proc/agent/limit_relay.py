"""How much accounts of limits have used at this sidecar: its processors' uses as one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Final

from ext_proc.contract import push_pb2
from ext_proc.contract.uses import Uses, merged_uses, most_used, uses_message, uses_of

TELL_EVERY_S: Final = 3.0


class LimitRelay:
    """Adds up what processors tell. What a processor held that died is forgotten with it.

    Args:
        tell: the way up.
    """

    def __init__(self, tell: Callable[[push_pb2.Report], None]) -> None:
        self._tell = tell
        self._uses: dict[int, Uses] = {}
        self._told: Uses = {}

    def __repr__(self) -> str:
        return f"<LimitRelay {len(self._uses)} processors>"

    def counted(self, stream: int, message: push_pb2.LimitUses) -> None:
        """Take what a processor's accounts used."""
        self._uses[stream] = uses_of(message)

    def gone(self, stream: int) -> None:
        """Learn that a processor will say no more."""
        self._uses.pop(stream, None)

    def standing(self) -> Iterator[push_pb2.Report]:
        """Yield what a new connection is to be told."""
        self._told = self._now()
        if self._told:
            yield push_pb2.Report(limit_uses=uses_message(self._told))

    async def run(self) -> None:
        """Tell what is new until cancelled."""
        while True:
            await asyncio.sleep(TELL_EVERY_S)
            self.look()

    def look(self) -> None:
        """Tell what is new."""
        now = self._now()
        if now != self._told:
            self._told = now
            self._tell(push_pb2.Report(limit_uses=uses_message(now)))

    def _now(self) -> Uses:
        return most_used(merged_uses(self._uses.values()))
