"""What callers are told."""

from __future__ import annotations

import pytest

from ext_proc.contract.snapshot import Limits
from ext_proc.limits.claims import Account, Rate, Reading, Refusal
from ext_proc.limits.headers import duration_text, rate_limit_headers, refusal_message, retry_after


def test_each_rate_has_three_headers() -> None:
    """Nothing is negative, also of a limit that was lowered; a rate without a limit is not told."""
    assert rate_limit_headers(Reading(10, 12, 59.0001), None) == (
        ("x-ratelimit-limit-requests", "10"),
        ("x-ratelimit-remaining-requests", "0"),
        ("x-ratelimit-reset-requests", "1m0s"),
    )
    assert [name for name, _ in rate_limit_headers(None, Reading(1, 0, 0))] == [
        "x-ratelimit-limit-tokens",
        "x-ratelimit-remaining-tokens",
        "x-ratelimit-reset-tokens",
    ]
    assert rate_limit_headers(None, None) == ()


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [(0, "0s"), (17, "17ms"), (999, "999ms"), (1000, "1s"), (1001, "2s"), (60_000, "1m0s"), (61_500, "1m2s")],
)
def test_times_are_written_as_openai_does(milliseconds: int, text: str) -> None:
    """Never shorter than they are."""
    assert duration_text(milliseconds) == text


@pytest.mark.parametrize(("wait", "text"), [(0.0, "1"), (0.2, "1"), (1.0, "1"), (1.01, "2"), (59.999, "60")])
def test_waits_are_whole_seconds_rounded_up(wait: float, text: str) -> None:
    """At least one: a client that reads 0 asks again at once."""
    assert retry_after(wait) == text


def test_a_refusal_names_what_is_in_the_way() -> None:
    """The account, the limit, the wait."""
    account = Account("tier:gold", "the tier gold", Limits(5))
    told = refusal_message(Refusal(account, Rate.TOKENS, 5, 1.5))
    assert told == "Rate limit reached for the tier gold: 5 tokens per minute. Please try again in 2s."
    assert "3 are allowed" in refusal_message(Refusal(account, Rate.CONCURRENCY, 3, 1.0))
