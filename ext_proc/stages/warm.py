"""Sees when providers with a `warmup` are called, and how soon they answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from ext_proc.contract.snapshot import Backend, Warmup
from ext_proc.exchange import Answer, Exchange, Forward, Sent
from ext_proc.pipeline import PassingStage


class Observer(Protocol):
    """Who knows how warm providers are."""

    def sent(self, backend: Backend, warmup: Warmup) -> bool:
        """Take notice of a call; return whether it is the first one after a pause."""
        ...

    def answered(self, backend: Backend, first_byte_s: float, *, first: bool) -> None:
        """Take notice of the first byte of its answer."""
        ...


class Warm(PassingStage):
    """Stands behind the stages that may hold a call. `clock` is in seconds."""

    name = "warm"

    def __init__(self, observer: Observer, clock: Callable[[], float]) -> None:
        self._observer = observer
        self._clock = clock

    async def on_request(self, exchange: Exchange) -> Answer | Forward | None:
        """Note when it went."""
        backend = exchange.backend
        if backend is not None and backend.warmup is not None:
            exchange.wants_head = True
            first = self._observer.sent(backend, backend.warmup)
            exchange.sent = Sent(backend, self._clock(), first)
        return None

    def on_response_head(self, exchange: Exchange) -> Answer | None:
        """Note how long it took, if it was answered well."""
        sent, response = exchange.sent, exchange.response
        if sent is not None and response is not None and 200 <= response.status < 300:
            self._observer.answered(sent.backend, self._clock() - sent.at, first=sent.first)
        return None
