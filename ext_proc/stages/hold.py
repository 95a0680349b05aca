"""Calls to a provider that is to be left alone, or whose quota is used up, wait here for their turn.

A Backend that cools hands its calls to the next candidate; where all of them cool, or the quota of the chosen
one is used up, a call is held up to `hold.max`, in fair order, and then refused with the time at which it
would be admitted. One more place among the calls at the same time (`quota.concurrency`) is waited for without
that limit. Where no quota is known and nothing cools, a call costs a look.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Final, Protocol

from ext_proc.candidates import Candidate
from ext_proc.contract.snapshot import Backend
from ext_proc.exchange import Answer, Answered, Exchange, Forward, Reason, describe
from ext_proc.limits.claims import Rate
from ext_proc.limits.estimates import Estimate, Estimates
from ext_proc.openai.errors import ErrorCode, ErrorType
from ext_proc.openai.paths import Operation
from ext_proc.pipeline import PassingStage
from ext_proc.providers.line import SHARE_OF_PATIENCE, Blocked, Obstacle, Outcome, Went
from ext_proc.providers.lines import Lines
from ext_proc.providers.quota import Ask, Draft, Wait, limits_anything
from ext_proc.providers.scopes import key_of, scope_of
from ext_proc.providers.watch import Watch
from ext_proc.refusals import refuse

HELD_AT_MOST: Final = 10_000
"""How many calls one processor holds; more are refused at once."""
_UNREAD: Final = frozenset((Operation.OTHER, Operation.MODELS, Operation.MODEL))


class Quotas(Protocol):
    """Who counts what is drawn from the quotas of Backends."""

    async def draw(self, ask: Ask) -> Draft | Wait:
        """Let a call go or tell it how long to wait."""
        ...

    def charge(self, ask: Ask) -> Draft:
        """Count a call that has gone without asking; it has no place."""
        ...

    def settle(self, draft: Draft, tokens: int) -> None:
        """Count `tokens` in the place of the estimate. Only the first settlement counts."""
        ...

    def give_back(self, draft: Draft) -> None:
        """Give back what was drawn for a call that was never sent."""
        ...

    def release(self, draft: Draft) -> None:
        """Give the place back, once."""
        ...


class Hold(PassingStage):
    """Holds calls. Stands behind the limits, before the stages that forward.

    Args:
        watch: which Backends are to be left alone, and of which little is left.
        quotas: what providers allow.
        estimates: what calls will use.
        clock: the running loop's time in seconds.
    """

    name = "hold"
    # In the place of what it refuses, a stale answer may be given.
    reasons = frozenset((Reason.COOLING, Reason.QUOTA, Reason.SERVED_STALE))

    def __init__(
        self,
        watch: Watch,
        quotas: Quotas,
        estimates: Estimates,
        clock: Callable[[], float],
    ) -> None:
        self._cooling = watch.cooling
        self._spread = watch.spread
        watch.on_change(self.heard)
        self._quotas = quotas
        self._estimates = estimates
        self._clock = clock
        self._lines = Lines(self._try_to_go, self._give_back, self._is_known)
        self._held = 0
        # Calls to each Backend that are under way.
        self._under_way: dict[str, int] = {}

    async def on_head(self, exchange: Exchange) -> Answer | Forward | None:
        """Hold calls whose bodies nobody reads: as requests, since their tokens are not known."""
        backend = exchange.loaded.default_backend
        if exchange.classified.operation not in _UNREAD or backend is None or self._is_free(backend):
            return None
        exchange.policy = exchange.loaded.policy("", exchange.tier)
        return await self._hold(exchange, (Candidate(None, None, backend),))

    async def on_request(self, exchange: Exchange) -> Answer | Forward | None:
        """Let a call go to a Backend that may be asked, hold it, or refuse it."""
        backend = exchange.backend
        if exchange.candidates:
            self._look_at_stand_ins(exchange)
        if backend is None or self._is_free(backend):
            return None
        own = Candidate(exchange.model, exchange.version, backend)
        return await self._hold(exchange, exchange.candidates or (own,))

    def on_response_head(self, exchange: Exchange) -> Answer | None:
        """Let go of the tokens that a failed call has drawn; its request counts for the provider, too.

        A stand-in that Envoy turned to has not been asked for: what it cost is a debt.
        """
        if exchange.stood_in:
            self._charge(exchange)
        draft, response = exchange.draft, exchange.response
        if draft is not None and response is not None and not 200 <= response.status < 300:
            self._settle(draft, 0)
        return None

    def on_response(self, exchange: Exchange, answered: Answered) -> None:
        """Count the tokens that the answer tells, else those that were expected."""
        draft, completion = exchange.draft, answered.completion
        if draft is None or not draft.open:
            return
        if completion is None or not completion.complete:
            self._settle(draft, 0)
        elif completion.usage is None:
            self._settle(draft, draft.ask.tokens)
        else:
            self._settle(draft, completion.usage.total_tokens)
            if draft.ask.tokens and (exchange.metered is None or not exchange.metered.estimate.prompt):
                choices = self._estimate(exchange).choices
                self._estimates.learn(exchange.model_name, len(exchange.body), completion.usage, choices)

    def on_end(self, exchange: Exchange) -> None:
        """Count what has broken off, give back what was never sent, and let the next call in."""
        draft, recorder = exchange.draft, exchange.recorder
        if draft is None:
            return
        if draft.open and not exchange.carried_on:
            if exchange.forwarded is None and not exchange.shared:
                self._quotas.give_back(draft)
            elif exchange.shared_failed:
                self._settle(draft, 0)
            elif recorder is not None and recorder.usage is not None:
                usage = recorder.usage if recorder.done else recorder.usage.at_least(recorder.produced)
                self._settle(draft, usage.total_tokens)
            else:
                self._settle(draft, draft.ask.tokens)
        self._release(draft)

    def heard(self, scope: str) -> None:
        """Let whoever waits for `scope` look again: it cools, or has been heard of."""
        self._lines.look_again(scope)

    def under_way(self, backend: str) -> int:
        """Return how many calls to `backend` this processor has under way, of one whose quota is known."""
        return self._under_way.get(backend, 0)

    async def close(self) -> None:
        """Let nobody wait any more."""
        await self._lines.close()

    def _is_free(self, backend: Backend) -> bool:
        name = backend.name
        return name not in self._cooling and name not in self._spread and not limits_anything(backend.quota)

    def _is_known(self, scope: str) -> bool:
        return self._cooling.knows(scope) or self._spread.knows(scope)

    async def _hold(self, exchange: Exchange, candidates: tuple[Candidate, ...]) -> Answer | None:
        """Try the candidates in order; those that cool come last, the first to be ready before the others."""
        now = self._clock()
        patience_s = exchange.policy.hold.max_ms / 1000
        ranked = sorted(
            candidates, key=lambda one: self._cooling.ready_in_s(_scope(exchange, one.backend), now)
        )
        blocked: Blocked | None = None
        for candidate, others in zip(ranked, (*ranked[1:], None), strict=True):
            left_s = max(patience_s - (self._clock() - now), 0.0)
            elsewhere = others is not None and not self._cooling.ready_in_s(
                _scope(exchange, others.backend), now
            )
            outcome = await self._wait_for(exchange, candidate.backend, left_s, elsewhere=elsewhere)
            if isinstance(outcome, Went):
                if exchange.candidates:
                    exchange.take(candidate)
                exchange.draft = outcome.draft
                return None
            if blocked is None or outcome.wait_s < blocked.wait_s:
                blocked = outcome
        if blocked is None:
            raise RuntimeError("nobody could have answered")
        return _refused(exchange, blocked)

    async def _wait_for(
        self, exchange: Exchange, backend: Backend, patience_s: float, *, elsewhere: bool
    ) -> Outcome:
        ask = self._ask(exchange, backend)
        if not self._lines.waits(ask):
            outcome = await self._try_to_go(ask, patience_s * SHARE_OF_PATIENCE)
            if isinstance(outcome, Went) or not (outcome.hopeful or outcome.wait_s <= patience_s):
                return outcome
        if self._held >= HELD_AT_MOST:
            cools_s = self._cooling.ready_in_s(ask.scope, self._clock())
            return Blocked(cools_s, Obstacle.COOLING if cools_s else Obstacle.QUOTA)
        await exchange.park()
        tier = exchange.loaded.snapshot.tiers.get(exchange.tier)
        priority, until = tier.priority if tier is not None else 0, self._clock() + patience_s
        self._held += 1
        try:
            return await self._lines.wait(ask, priority, until, self._clock, elsewhere=elsewhere)
        finally:
            self._held -= 1

    def _ask(self, exchange: Exchange, backend: Backend) -> Ask:
        quota, tokens = backend.quota, 0
        if limits_anything(quota):
            exchange.wants_head = True
        if exchange.request is not None:
            if quota.tokens_per_minute is not None:
                exchange.wants_body = True
                exchange.wants_stream = exchange.request.stream
                tokens = self._estimate(exchange).claim(quota.tokens_per_minute)
            elif quota.concurrency is not None:
                # To know when it has ended.
                exchange.wants_stream = exchange.wants_stream or exchange.request.stream
        return Ask(backend.name, quota, tokens, scope=_scope(exchange, backend))

    async def _try_to_go(self, ask: Ask, bears_s: float) -> Outcome:
        """Draw what a call needs, unless something is in the way. `bears_s`: see `Line`."""
        now = self._clock()
        alone = self._lines.is_alone(ask)
        wait_s = self._cooling.wait_s(ask.scope, now)
        if wait_s:
            return Blocked(wait_s, Obstacle.COOLING, alone=alone)
        wait_s = self._spread.wait_s(ask.scope, ask.tokens, bears_s, now)
        if wait_s:
            self._cooling.take_back(ask.scope)
            return Blocked(wait_s, Obstacle.COOLING, alone=alone)
        if not limits_anything(ask.quota):
            return Went(None)
        drawn: Draft | Wait | None = None
        try:
            drawn = await self._quotas.draw(ask._replace(most_us=int(bears_s * 1e6)))
        finally:
            if not isinstance(drawn, Draft):
                # It does not go after all: another one may be the first to.
                self._cooling.take_back(ask.scope)
                self._spread.take_back(ask.scope, ask.tokens, now)
        if isinstance(drawn, Wait):
            return self._blocked(ask, drawn)
        self._under_way[ask.backend] = self._under_way.get(ask.backend, 0) + 1
        return Went(drawn)

    def _blocked(self, ask: Ask, wait: Wait) -> Blocked:
        if wait.rate is Rate.CONCURRENCY:
            return Blocked(wait.wait_s, Obstacle.PLACES, hopeful=True)
        # What calls under way have drawn above their use comes back with their answers.
        comes_back = wait.rate is Rate.TOKENS and self._under_way.get(ask.backend, 0) > 0
        return Blocked(wait.wait_s, Obstacle.QUOTA, hopeful=wait.paced or comes_back)

    def _look_at_stand_ins(self, exchange: Exchange) -> None:
        """Have the answer shown, if who may give it in the place of the first has a quota."""
        request = exchange.request
        for candidate in exchange.candidates[1:]:
            quota = candidate.backend.quota
            exchange.wants_head = exchange.wants_head or limits_anything(quota)
            if quota.tokens_per_minute is not None and request is not None:
                exchange.wants_body, exchange.wants_stream = True, exchange.wants_stream or request.stream

    def _charge(self, exchange: Exchange) -> None:
        """Have the Backend that answered count the call, and the first one count it as failed."""
        draft, backend = exchange.draft, exchange.backend
        if draft is not None:
            self._settle(draft, 0)
            self._release(draft)
            exchange.draft = None
        if backend is not None and limits_anything(backend.quota):
            exchange.draft = self._quotas.charge(self._ask(exchange, backend))

    def _settle(self, draft: Draft, tokens: int) -> None:
        self._quotas.settle(draft, tokens)
        self.heard(draft.ask.backend)

    def _give_back(self, draft: Draft) -> None:
        self._quotas.give_back(draft)
        self._release(draft)

    def _release(self, draft: Draft) -> None:
        if draft.holds:
            self._under_way[draft.ask.backend] -= 1
            self._quotas.release(draft)
            self.heard(draft.ask.backend)

    def _estimate(self, exchange: Exchange) -> Estimate:
        request = exchange.parsed
        return self._estimates.estimate(
            exchange.model_name, request.operation, request.document, len(exchange.body)
        )


def _scope(exchange: Exchange, backend: Backend) -> str:
    return scope_of(backend.name, key_of(backend, exchange.tenant))


def _refused(exchange: Exchange, blocked: Blocked) -> Answer:
    again_s = max(math.ceil(blocked.wait_s), 1)
    if blocked.obstacle is Obstacle.COOLING:
        reason, why = Reason.COOLING, "The provider has asked to be left alone for a while."
    else:
        reason, why = Reason.QUOTA, "The provider's quota is used up."
    refused = refuse(
        429,
        reason,
        f"{why} Please try again in {again_s}s.",
        kind=ErrorType.REQUESTS,
        code=ErrorCode.RATE_LIMIT_EXCEEDED,
        headers=(("retry-after", str(again_s)),),
    )
    if exchange.metered is not None:
        exchange.metered.refused = (refused.status, refused.headers, refused.body)
    return replace(refused, metadata=describe(exchange))
