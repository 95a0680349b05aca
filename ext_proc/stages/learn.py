"""What the provider says of its own quota, learned from the headers of its answers.

Seeing an answer's headers costs a message, so they are asked for only of providers that say something: one
that said nothing is asked again once in `ASK_AGAIN_S`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from ext_proc.exchange import Answer, Exchange, Forward
from ext_proc.openai.ratelimits import RateLimitHint, parse_hints
from ext_proc.pipeline import PassingStage

ASK_AGAIN_S: Final = 1.0
_SAYS_SOMETHING: Final = float("-inf")


class QuotaObserver(Protocol):
    """Who is told of a provider's remaining quota."""

    def observe(self, backend: str, hint: RateLimitHint) -> None:
        """`backend` is a configured name."""
        ...


class Learn(PassingStage):
    """Reads `x-ratelimit-*`. `now` is UNIX time in seconds. Stands before the stage that forwards."""

    def __init__(self, observer: QuotaObserver, now: Callable[[], float]) -> None:
        self._observer = observer
        self._now = now
        # By Backend: when it is asked again.
        self._ask_at: dict[str, float] = {}

    async def on_request(self, exchange: Exchange) -> Answer | Forward | None:
        """Ask for the answer's headers where they are worth it."""
        backend = exchange.backend
        if backend is not None:
            now = self._now()
            if self._ask_at.get(backend.name, _SAYS_SOMETHING) <= now:
                exchange.wants_head = True
                self._ask_at[backend.name] = now + ASK_AGAIN_S
        return None

    def on_response_head(self, exchange: Exchange) -> Answer | None:
        """Tell the observer, if there is anything to tell."""
        response, backend = exchange.response, exchange.backend
        if response is None or backend is None:
            return None
        if any(name.startswith("x-ratelimit-") for name in response.headers):
            self._ask_at[backend.name] = _SAYS_SOMETHING
            self._observer.observe(backend.name, parse_hints(response.headers, self._now()))
        return None
