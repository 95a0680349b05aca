"""Answers of our own in OpenAI's shape."""

from __future__ import annotations

import orjson
import pytest

from ext_proc.contract.snapshot import Limits
from ext_proc.exchange import Answer, Reason
from ext_proc.limits.claims import Account, Rate, Refusal
from ext_proc.refusals import no_backend, over_limit, refuse, unknown_model


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        (refuse(400, Reason.BAD_REQUEST, "bad", param="p", code="c"), 400),
        (unknown_model("x" * 5000 + "\x1b[31m"), 404),
        (no_backend(), 503),
    ],
)
def test_every_refusal_is_one_clear_sentence(answer: Answer, status: int) -> None:
    """JSON with message, type, param and code; the reason in a header; no control characters."""
    assert answer.status == status
    error = orjson.loads(answer.body)["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert "\x1b" not in error["message"]
    assert len(error["message"]) < 400
    headers = dict(answer.headers)
    assert headers["content-type"] == "application/json"
    assert headers["x-outrigger-error"] == answer.reason


@pytest.mark.parametrize(
    ("rate", "shed", "reason", "kind", "code"),
    [
        (Rate.REQUESTS, False, Reason.RATE_LIMIT, "requests", "rate_limit_exceeded"),
        (Rate.TOKENS, False, Reason.RATE_LIMIT, "tokens", "rate_limit_exceeded"),
        (Rate.TOKENS, True, Reason.SHED, "tokens", "shed"),
        (Rate.CONCURRENCY, True, Reason.SHED, "requests", "shed"),
        (Rate.DAY_TOKENS, False, Reason.BUDGET, "insufficient_quota", "budget_exceeded"),
        (Rate.DAY_COST, False, Reason.BUDGET, "insufficient_quota", "budget_exceeded"),
    ],
)
def test_a_caller_over_its_limit_is_told_which_and_until_when(
    rate: Rate, shed: bool, reason: Reason, kind: str, code: str
) -> None:
    """429 with the wait and how it stands; for a day's budget no client waits by itself."""
    account = Account("tier:t", "the tier t", Limits())
    answer = over_limit(Refusal(account, rate, 2_500_000, 3_600.5, shed), (("x-told", "1"),))
    headers = dict(answer.headers)
    assert (answer.status, answer.reason, headers["x-outrigger-error"]) == (429, reason, reason.value)
    assert (headers["retry-after"], headers["x-told"]) == ("3601", "1")
    assert (headers.get("x-should-retry") == "false") == (reason is Reason.BUDGET)
    error = orjson.loads(answer.body)["error"]
    assert (error["type"], error["code"], error["param"]) == (kind, code, None)
    assert "the tier t" in error["message"]
    if rate is Rate.DAY_COST:
        assert "a cost of 2.5 within 24 hours" in error["message"]
