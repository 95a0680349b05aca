"""What an answer says of when to come back."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ext_proc.openai.ratelimits import MAX_WAIT_S, RateLimitHint
from ext_proc.providers.hints import NO_HINT, read_hint
from tests.harness.hints import CASES, NEVER_SAID, HintCase

NOW_S = 1_793_954_977.0


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_every_form(case: HintCase) -> None:
    """Whether the provider is to be left alone, and how long."""
    hint = read_hint(case.status, case.headers_at(NOW_S), NOW_S)
    assert hint.cools is (case.wait_s > 0)
    if case.wait_s in (0.0, NEVER_SAID):
        assert hint.wait_s is None
    else:
        assert hint.wait_s == pytest.approx(case.wait_s, abs=1e-3)


def test_what_is_left_is_told_of_any_answer() -> None:
    """For those who spread it."""
    headers = {"x-ratelimit-remaining-tokens": "90", "x-ratelimit-reset-tokens": "6s"}
    hint = read_hint(200, headers, NOW_S)
    assert not hint.cools
    assert hint.quota == RateLimitHint(remaining_tokens=90, reset_tokens_s=6.0)
    assert read_hint(200, {}, NOW_S) == NO_HINT


@given(
    st.integers(100, 599),
    st.dictionaries(st.sampled_from(sorted({name for case in CASES for name in case.headers})), st.text()),
)
def test_no_header_raises_and_every_wait_is_believable(status: int, headers: dict[str, str]) -> None:
    """Whatever a provider writes."""
    hint = read_hint(status, headers, NOW_S)
    if hint.wait_s is not None:
        assert hint.cools
        assert 0 < hint.wait_s <= MAX_WAIT_S
        assert math.isfinite(hint.wait_s)
