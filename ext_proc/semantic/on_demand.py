"""Similar questions for a processor that may never be asked for any: loaded when a Policy wants them first.

Loading takes a tenth of a second and a megabyte, in a thread; until it is done, nothing is found or learned.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from structlog.typing import FilteringBoundLogger

from ext_proc.answers import StoredAnswer
from ext_proc.continuation import Caller
from ext_proc.contract.snapshot import Purge
from ext_proc.exchange import Exchange
from ext_proc.tiers import Tiers

if TYPE_CHECKING:
    from ext_proc.semantic.similar import SemanticCounts, SimilarQuestions


class SimilarOnDemand:
    """Finds and learns for the cache stage, once it is loaded.

    Args:
        tiers: where answers are kept.
        caller: who calls providers for the processor.
        counts: told of every decision.
        clock: a monotonic time in seconds, the same as the answers'.
        draw: returns uniform numbers in [0, 1).
        log: where it is told what is missing or fails.
        purges: what is void, by the newest snapshot.
    """

    def __init__(
        self,
        tiers: Tiers,
        caller: Caller,
        counts: SemanticCounts,
        *,
        clock: Callable[[], float],
        draw: Callable[[], float],
        log: FilteringBoundLogger,
        purges: Callable[[], Sequence[Purge]] = tuple,
    ) -> None:
        self._tiers = tiers
        self._caller = caller
        self._counts = counts
        self._clock = clock
        self._draw = draw
        self._log = log
        self._purges = purges
        self._similar: SimilarQuestions | None = None
        self._loading: asyncio.Task[None] | None = None

    async def find(self, exchange: Exchange) -> StoredAnswer | None:
        """Return an answer to be served for the exchange's question; None while it is being loaded."""
        self.load()
        return await self._similar.find(exchange) if self._similar is not None else None

    def learn(self, exchange: Exchange, key: bytes, answer: StoredAnswer) -> None:
        """Take notice of the provider's own answer, kept under `key`; not while it is being loaded."""
        self.load()
        if self._similar is not None:
            self._similar.learn(exchange, key, answer)

    def load(self) -> None:
        """Begin to load it, on the running loop, if that has not begun."""
        if self._loading is None:
            self._loading = asyncio.get_running_loop().create_task(self._load(), name="similar questions")

    async def loaded(self) -> None:
        """Wait until it is loaded, or could not be."""
        self.load()
        if self._loading is not None:
            await asyncio.wait((self._loading,))

    async def close(self) -> None:
        """Let it go."""
        if self._loading is not None:
            await asyncio.wait((self._loading,))
        if self._similar is not None:
            await self._similar.close()

    async def _load(self) -> None:
        try:
            self._similar = await asyncio.to_thread(self._made)
        except Exception as error:
            self._log.error("similar questions cannot be loaded", error=type(error).__name__, exc_info=True)

    def _made(self) -> SimilarQuestions:
        from ext_proc.semantic.embedders import PolicyEmbedders  # noqa: PLC0415 - what this module is for
        from ext_proc.semantic.similar import SimilarQuestions  # noqa: PLC0415

        return SimilarQuestions(
            self._tiers,
            PolicyEmbedders(self._caller, self._clock, self._log),
            self._counts,
            clock=self._clock,
            draw=self._draw,
            log=self._log,
            purges=self._purges,
        )
