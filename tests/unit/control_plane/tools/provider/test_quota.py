"""The quota's arithmetic and headers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from control_plane.tools.provider.errors import ApiError
from control_plane.tools.provider.quota import MOST_MODELS, Bucket, Quota, duration

NAMES = [
    f"x-ratelimit-{what}-{unit}"
    for unit in ("requests", "tokens")
    for what in ("limit", "remaining", "reset")
]


def test_all_six_headers() -> None:
    """With both limits an answer carries OpenAI's six headers."""
    headers = dict(Quota(60, 1000).admit("m", 100, now=0))
    assert list(headers) == NAMES
    assert list(headers.values()) == ["60", "59", "1s", "1000", "900", "6s"]


def test_no_limits_no_headers() -> None:
    """Without a quota nothing is said and nothing refused."""
    quota = Quota(None, None)
    assert all(quota.admit("m", 10**9, now=0) == () for _ in range(100))


def test_refused_requests() -> None:
    """Beyond the limit: 429 with a whole retry-after after which the call passes; refusals cost nothing."""
    quota = Quota(3, None)
    for _ in range(3):
        quota.admit("m", 1, now=0)
    for _ in range(5):
        with pytest.raises(ApiError) as caught:
            quota.admit("m", 1, now=0)
    headers = dict(caught.value.headers)
    assert (caught.value.status, caught.value.kind, caught.value.code) == (
        429,
        "requests",
        "rate_limit_exceeded",
    )
    assert (headers["retry-after"], headers["retry-after-ms"]) == ("20", "20000")
    assert headers["x-ratelimit-remaining-requests"] == "0"
    quota.admit("m", 1, now=20)


def test_refused_tokens_leave_the_requests_alone() -> None:
    """A call that lacks tokens is not charged as a request either."""
    quota = Quota(10, 100)
    quota.admit("m", 90, now=0)
    with pytest.raises(ApiError) as caught:
        quota.admit("m", 50, now=0)
    headers = dict(caught.value.headers)
    assert (caught.value.kind, headers["x-ratelimit-remaining-requests"]) == ("tokens", "9")
    assert headers["retry-after"] == "24"


def test_a_call_larger_than_the_limit() -> None:
    """What can never fit is refused without a hint to try again."""
    with pytest.raises(ApiError, match="Request too large") as caught:
        Quota(None, 100).admit("m", 101, now=0)
    assert "retry-after" not in dict(caught.value.headers)


def test_models_are_apart_and_bounded() -> None:
    """Each model has its own quota, and invented model names do not pile up."""
    quota = Quota(1, None)
    for number in range(MOST_MODELS + 10):
        quota.admit(f"m{number}", 1, now=0)
    with pytest.raises(ApiError):
        quota.admit(f"m{MOST_MODELS + 9}", 1, now=0)
    quota.admit("m0", 1, now=0)  # long forgotten


@given(st.lists(st.tuples(st.floats(0, 100), st.integers(1, 50)), max_size=40))
def test_a_bucket_stays_within_its_bounds(steps: list[tuple[float, int]]) -> None:
    """Whatever is taken when, the level is between 0 and one minute's worth."""
    bucket, now = Bucket(50, 0), 0.0
    for pause, amount in steps:
        now += pause
        if bucket.wait_s(amount, now) == 0:
            bucket.take(amount, now)
        assert -1e-6 <= bucket.remaining(now) <= 50


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (0.0001, "1ms"),
        (0.12, "120ms"),
        (8.64, "8.64s"),
        (20, "20s"),
        (360, "6m0s"),
        (61.2, "1m2s"),
        (3600, "1h0m0s"),
    ],
)
def test_duration(seconds: float, text: str) -> None:
    """Durations are written as OpenAI writes them."""
    assert duration(seconds) == text
