"""What the provider says of itself, learned from its answers: what is left of its quota, when to come back.

Seeing an answer's headers costs a message, so they are asked for only now and then of providers that say
nothing; a call that comes alone is always looked at.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from ext_proc.contract.policies import RetryPolicy
from ext_proc.contract.snapshot import Backend
from ext_proc.exchange import Answer, Exchange, Forward
from ext_proc.openai.ratelimits import RateLimitHint, speaks_of_quota
from ext_proc.pipeline import PassingStage
from ext_proc.providers.hints import REFUSALS, Hint, read_hint
from ext_proc.providers.scopes import key_of, scope_of

ASK_AGAIN_S: Final = 0.02
_SAYS_SOMETHING: Final = float("-inf")


class QuotaObserver(Protocol):
    """Who is told of a provider's remaining quota."""

    def observe(self, backend: str, hint: RateLimitHint) -> None:
        """`backend` is a configured name."""
        ...


class HintObserver(Protocol):
    """Who is told of what answers say about their provider."""

    def needs(self, backend: str, retry: RetryPolicy) -> bool:
        """Say whether the answer of a call to `backend` matters in any case; `retry` is the call's Policy."""
        ...

    def observe(self, scope: str, status: int, hint: Hint, retry: RetryPolicy) -> None:
        """Take notice of an answer to a call of that scope; `retry` is its Policy."""
        ...


class Learn(PassingStage):
    """Reads the answers' headers. Stands before the stage that forwards.

    Args:
        quota: told what is left of a quota.
        hints: told of refusals.
        now: UNIX time in seconds.
        refused_usage: told of a Backend that cannot be asked for a stream's usage.
    """

    name = "learn"

    def __init__(
        self,
        quota: QuotaObserver,
        hints: HintObserver,
        now: Callable[[], float],
        refused_usage: Callable[[Backend], None] = lambda backend: None,
    ) -> None:
        self._refused_usage = refused_usage
        self._quota = quota
        self._hints = hints
        self._now = now
        # By Backend: when it is asked again.
        self._ask_at: dict[str, float] = {}

    async def on_request(self, exchange: Exchange) -> Answer | Forward | None:
        """Ask for the answer's headers where they are worth it."""
        backend = exchange.backend
        if backend is not None:
            now = self._now()
            needed = self._hints.needs(backend.name, exchange.policy.retry)
            if needed or self._ask_at.get(backend.name, _SAYS_SOMETHING) <= now:
                exchange.wants_head = True
                self._ask_at[backend.name] = now + ASK_AGAIN_S
        return None

    def on_response_head(self, exchange: Exchange) -> Answer | None:
        """Tell the observers, if there is anything to tell."""
        response, backend = exchange.response, exchange.backend
        if response is None or backend is None:
            return None
        if exchange.usage_refused_by is not None and (
            # The attempt without has shown that it was the field, and not a word of the caller's like it.
            response.status == 200 or exchange.policy.retry.attempts == 1
        ):
            self._refused_usage(exchange.usage_refused_by)
        speaks = speaks_of_quota(response.headers)
        if (
            not speaks
            and response.status not in REFUSALS
            and not self._hints.needs(backend.name, exchange.policy.retry)
        ):
            return None
        hint = read_hint(response.status, response.headers, self._now())
        if exchange.used_up and hint.wait_s is None:
            # A caller's empty account says nothing of the provider, which others pay by themselves.
            return None
        scope = scope_of(backend.name, key_of(backend, exchange.tenant))
        self._hints.observe(scope, response.status, hint, exchange.policy.retry)
        if speaks:
            self._ask_at[backend.name] = _SAYS_SOMETHING
            self._quota.observe(backend.name, hint.quota)
        return None
