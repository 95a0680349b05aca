"""Limits: who may send how much upstream, and what it is charged in the end.

Hits, pins and the followers of a flight cost nothing, so a call is admitted when it is about to go up; only
where an account counts hits as requests (`countCached`) that part is admitted before. What a call reserved
is settled by the usage that its answer tells, given back when it failed or was left before an answer, and
charged by an estimate when a stream broke off.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final, Protocol

from ext_proc.exchange import Answer, Answered, Exchange, Forward, Reason, describe
from ext_proc.limits.claims import Account, Claim, Load, Metered, Reading, Reservation, Unavailable, Verdict
from ext_proc.limits.estimates import NOTHING, Estimates
from ext_proc.limits.headers import rate_limit_headers
from ext_proc.limits.money import cost_of
from ext_proc.openai.errors import ErrorType
from ext_proc.openai.paths import Operation
from ext_proc.openai.usage import Usage
from ext_proc.pipeline import PassingStage
from ext_proc.refusals import over_limit, refuse

REFUSE: Final = "refuse"
PAGE: Final = "text/html"
_REASONS: Final = frozenset((Reason.RATE_LIMIT, Reason.BUDGET, Reason.SHED, Reason.LIMITS_UNAVAILABLE))
_UNREAD: Final = frozenset((Operation.OTHER, Operation.MODELS, Operation.MODEL))


class Book(Protocol):
    """Who counts what accounts have used."""

    async def reserve(self, claims: Sequence[Claim], *, refuse_on_loss: bool = False) -> Verdict:
        """Admit a call to all accounts or to none.

        Raises:
            Unavailable: nobody can tell, and the call is to be refused then.
        """
        ...

    def look(self, accounts: Sequence[Account]) -> tuple[Reading | None, Reading | None]:
        """Return how the tightest account stands with requests and with tokens, as far as is known here."""
        ...

    def load(self, account: Account) -> Load:
        """Return the largest shares of the account's limits in use, as far as is known here."""
        ...

    def settle(self, reservation: Reservation, tokens: int, cost: int = 0) -> None:
        """Count `tokens` and `cost` in the place of what was reserved.

        Only the first settlement or refund counts.
        """
        ...

    def refund(self, reservation: Reservation) -> None:
        """Give all but the place back. Only the first settlement or refund counts."""
        ...

    def release(self, reservation: Reservation) -> None:
        """Give the place among the calls at the same time back, once."""
        ...


class Meter(PassingStage):
    """Fills in `metered` for calls that have accounts; admits them as requests where hits count as such.

    Stands where the Model is known and nothing has been answered yet.
    """

    name = "meter"
    reasons = _REASONS

    def __init__(self, book: Book) -> None:
        self._book = book

    async def on_request(self, exchange: Exchange) -> Answer | Forward | None:
        """Refuse what has no request left though a hit would cost one."""
        metered = _metered(exchange)
        if metered is None:
            return None
        counting = [Claim(one, slot=False) for one in metered.accounts if one.limits.count_cached]
        if counting:
            decided = await _reserve(self._book, exchange, counting)
            if isinstance(decided, Answer):
                return decided
            metered.counted = decided
        return None

    def on_answer(self, exchange: Exchange, answer: Answer) -> Answer:
        """Say how the caller's accounts stand on answers that cost nothing, too."""
        metered = exchange.metered
        if metered is None or answer.reason in _REASONS:
            return answer
        told = metered.told or rate_limit_headers(*self._book.look(metered.accounts))
        return replace(answer, headers=(*answer.headers, *told)) if told else answer


class Limit(PassingStage):
    """Admits what goes upstream, and settles it. Stands behind all stages that answer without a call."""

    name = "limit"
    reasons = _REASONS

    def __init__(self, book: Book, estimates: Estimates) -> None:
        self._book = book
        self._estimates = estimates

    async def on_head(self, exchange: Exchange) -> Answer | Forward | None:
        """Admit calls whose bodies nobody reads: as requests, since their tokens are not known."""
        if exchange.classified.operation not in _UNREAD or _metered(exchange) is None:
            return None
        exchange.policy = exchange.loaded.policy("", exchange.tier)
        return await self._admit(exchange)

    async def on_request(self, exchange: Exchange) -> Answer | Forward | None:
        """Admit the call, with an estimate of its tokens, or refuse it."""
        metered = exchange.metered
        if metered is None:
            return None
        of_usage = of_places = False
        for account in metered.accounts:
            of_usage = of_usage or account.counts_usage
            of_places = of_places or account.places is not None
        if of_usage:
            request = exchange.parsed
            metered.estimate = self._estimates.estimate(
                exchange.model_name, request.operation, request.document, len(exchange.body)
            )
            exchange.wants_body = True
            exchange.wants_stream = request.stream
        elif of_places:
            # To know when it has ended.
            exchange.wants_stream = exchange.parsed.stream
        return await self._admit(exchange)

    async def admit_anew(self, exchange: Exchange) -> Answer | Forward | None:
        """Admit a call of the mesh's own, made in the place of one that has been answered."""
        if _metered(exchange) is None:
            return None
        return await self.on_request(exchange)

    async def _admit(self, exchange: Exchange) -> Answer | None:
        metered = exchange.metered
        if metered is None:
            return None
        exchange.wants_head = True
        counted, estimate = metered.counted is not None, metered.estimate
        prices = exchange.model.prices if exchange.model is not None else None
        claims = [
            Claim(
                account,
                0 if counted and account.limits.count_cached else 1,
                estimate.claim(account.most_tokens) if account.most_tokens else 0,
                True,
                cost_of(prices, estimate.prompt, estimate.output) if account.counts_cost else 0,
            )
            for account in metered.accounts
        ]
        decided = await _reserve(self._book, exchange, claims)
        if isinstance(decided, Answer):
            if metered.counted is not None:
                self._book.refund(metered.counted)
            metered.refused = (decided.status, decided.headers, decided.body)
            return decided
        metered.reserved = decided
        return None

    def on_response_head(self, exchange: Exchange) -> Answer | None:
        """Give everything back that a failed call reserved; one that got a page has failed, too."""
        metered, response = exchange.metered, exchange.response
        if metered is None or response is None:
            return None
        if 200 <= response.status < 300:
            if exchange.request is not None and response.headers.get("content-type", "").startswith(PAGE):
                self._give_back(metered)
            return None
        self._give_back(metered)
        if response.status != 429:
            metered.told = ()
        return None

    def on_response(self, exchange: Exchange, answered: Answered) -> None:
        """Settle by the usage that the answer tells; one that is an error cost nothing."""
        metered = exchange.metered
        if metered is None or metered.reserved is None or not metered.reserved.open:
            return
        completion = answered.completion
        if completion is not None and completion.usage is not None:
            self._settle(exchange, metered, metered.reserved, completion.usage)
        elif completion is None or not completion.complete:
            self._give_back(metered)
        elif exchange.recorder is not None:
            self._charge(exchange, metered.reserved, metered.estimate.prompt, exchange.recorder.produced)
        else:
            self._as_reserved(metered.reserved)

    def on_end(self, exchange: Exchange) -> None:
        """Charge what broke off, give back what never came, and let the next call in."""
        metered = exchange.metered
        if metered is None:
            return
        reserved = metered.reserved
        if reserved is None:
            return
        if reserved.open:
            self._close(exchange, metered, reserved)
        self._book.release(reserved)

    def _close(self, exchange: Exchange, metered: Metered, reserved: Reservation) -> None:
        recorder = exchange.recorder
        if exchange.response is None:
            if not exchange.carried_on:
                self._give_back(metered)
        elif recorder is not None and recorder.usage is not None:
            if recorder.done:
                self._settle(exchange, metered, reserved, recorder.usage)
            else:
                used = recorder.usage.at_least(recorder.produced)
                self._charge(exchange, reserved, used.prompt_tokens, used.completion_tokens)
        elif recorder is not None:
            self._charge(exchange, reserved, metered.estimate.prompt, recorder.produced)
        # What nobody has read is charged as it was estimated.

    def _charge(self, exchange: Exchange, reserved: Reservation, prompt: int, output: int) -> None:
        prices = exchange.model.prices if exchange.model is not None else None
        self._book.settle(reserved, prompt + output, cost_of(prices, prompt, output))

    def _as_reserved(self, reserved: Reservation) -> None:
        cost = max(claim.cost for claim in reserved.claims)
        self._book.settle(reserved, reserved.tokens, cost)

    def _settle(self, exchange: Exchange, metered: Metered, reserved: Reservation, usage: Usage) -> None:
        prices = exchange.model.prices if exchange.model is not None else None
        cost = cost_of(prices, usage.prompt_tokens, usage.completion_tokens)
        self._book.settle(reserved, usage.total_tokens, cost)
        if metered.estimate is not NOTHING:
            self._estimates.learn(exchange.model_name, len(exchange.body), usage, metered.estimate.choices)

    def _give_back(self, metered: Metered) -> None:
        for reservation in (metered.reserved, metered.counted):
            if reservation is not None:
                self._book.refund(reservation)


def _metered(exchange: Exchange) -> Metered | None:
    loaded = exchange.loaded
    if not loaded.limited:
        return None
    accounts = loaded.accounts(exchange.tier, exchange.consumer, exchange.model)
    if accounts:
        exchange.metered = Metered(accounts)
    return exchange.metered


async def _reserve(book: Book, exchange: Exchange, claims: Sequence[Claim]) -> Reservation | Answer:
    metered = exchange.metered
    try:
        verdict = await book.reserve(claims, refuse_on_loss=exchange.policy.limits.on_redis_loss == REFUSE)
    except Unavailable:
        refused = refuse(
            503,
            Reason.LIMITS_UNAVAILABLE,
            "What has been used of your limits is not known at the moment. Try again soon.",
            kind=ErrorType.SERVER,
            code="limits_unavailable",
            headers=(("retry-after", "1"),),
        )
        return replace(refused, metadata=describe(exchange))
    told = rate_limit_headers(verdict.requests, verdict.tokens)
    if verdict.admitted is not None:
        if metered is not None:
            metered.told = told
        return verdict.admitted
    if verdict.refusal is None:
        raise RuntimeError("a verdict neither admits nor refuses")
    return replace(over_limit(verdict.refusal, told), metadata=describe(exchange))
