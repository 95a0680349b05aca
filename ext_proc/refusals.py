"""Answers of our own that more than one stage gives, in OpenAI's error shape."""

from __future__ import annotations

from ext_proc.contract import headers as names
from ext_proc.exchange import Answer, Exchange, Pairs, Reason
from ext_proc.limits.claims import Rate, Refusal
from ext_proc.limits.headers import refusal_message, retry_after
from ext_proc.openai.catalog import model_not_found_body
from ext_proc.openai.errors import ErrorCode, ErrorType, error_body


def refuse(
    status: int,
    reason: Reason,
    message: str,
    *,
    kind: ErrorType = ErrorType.INVALID_REQUEST,
    param: str | None = None,
    code: str | None = None,
    headers: Pairs = (),
) -> Answer:
    """Return an error answer in OpenAI's shape that names `reason` in `x-outrigger-error`."""
    return Answer(
        status,
        error_body(message, kind, param, code),
        reason,
        (*_headers(reason), *headers),
    )


def require_consumer(exchange: Exchange, model: str) -> Answer | None:
    """Return the 401 that Policy `requireConsumer` asks for, or None when the caller may go on."""
    if exchange.consumer is None and exchange.loaded.policy(model, exchange.tier).require_consumer:
        return refuse(
            401,
            Reason.CONSUMER_REQUIRED,
            "A Consumer key (ork_…) is required here. Ask your platform team for one.",
            code=ErrorCode.INVALID_API_KEY,
        )
    return None


def unknown_model(asked: str) -> Answer:
    """Return the 404 for a model that is not configured."""
    return Answer(404, model_not_found_body(asked), Reason.UNKNOWN_MODEL, _headers(Reason.UNKNOWN_MODEL))


def no_backend() -> Answer:
    """Return the 503 for a request that needs the default Backend when there is none."""
    return refuse(
        503,
        Reason.NO_BACKEND,
        "No Backend is marked `default: true`, so this request has nowhere to go.",
        kind=ErrorType.SERVER,
        code="no_backend",
    )


def over_limit(refusal: Refusal, told: Pairs) -> Answer:
    """Return the 429 for a call that its accounts have no room for; `told` says how they stand.

    Clients wait for a minute's limit by themselves. A day's budget is nothing to wait for: they are told so
    in the way that OpenAI's own clients know.
    """
    kind, reason, code = ErrorType.REQUESTS, Reason.RATE_LIMIT, ErrorCode.RATE_LIMIT_EXCEEDED
    wait: Pairs = (("retry-after", retry_after(refusal.wait_s)),)
    if refusal.rate is Rate.DAY_TOKENS or refusal.rate is Rate.DAY_COST:
        kind, reason, code = ErrorType.BUDGET, Reason.BUDGET, ErrorCode.BUDGET_EXCEEDED
        wait = (*wait, ("x-should-retry", "false"))
    elif refusal.rate is Rate.TOKENS:
        kind = ErrorType.TOKENS
    if refusal.shed:
        reason, code = Reason.SHED, ErrorCode.SHED
    return refuse(429, reason, refusal_message(refusal), kind=kind, code=code, headers=(*wait, *told))


def _headers(reason: Reason) -> Pairs:
    return (("content-type", "application/json"), (names.ERROR, reason.value))
