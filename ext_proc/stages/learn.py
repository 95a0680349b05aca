"""What the provider says of its own quota, learned from the headers of its answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from ext_proc.exchange import Exchange
from ext_proc.openai.ratelimits import RateLimitHint, parse_hints
from ext_proc.pipeline import PassingStage


class QuotaObserver(Protocol):
    """Who is told of a provider's remaining quota."""

    def observe(self, backend: str, hint: RateLimitHint) -> None:
        """`backend` is a configured name."""
        ...


class Learn(PassingStage):
    """Reads `x-ratelimit-*` of each answer. `now` is UNIX time in seconds."""

    def __init__(self, observer: QuotaObserver, now: Callable[[], float]) -> None:
        self._observer = observer
        self._now = now

    def on_response_head(self, exchange: Exchange) -> None:
        """Tell the observer, if there is anything to tell."""
        response, backend = exchange.response, exchange.backend
        if response is None or backend is None:
            return
        if any(name.startswith("x-ratelimit-") for name in response.headers):
            self._observer.observe(backend.name, parse_hints(response.headers, self._now()))
