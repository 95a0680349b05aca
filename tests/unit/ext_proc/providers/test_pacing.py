"""Distances between calls, and what is left of a provider's quota."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ext_proc.openai.ratelimits import RateLimitHint
from ext_proc.providers.pacing import FARTHEST_US, FREE, HELD_US, PacedWindow, Spread

SECOND_US = 1_000_000


def used(*amounts: int) -> PacedWindow:
    """Return a window of which so much was used in each second from 0 on."""
    window = PacedWindow()
    for second, amount in enumerate(amounts):
        window.add(second * SECOND_US, amount)
    return window


def test_the_first_third_is_free() -> None:
    """However fast it is used."""
    assert used(999 // FREE).paced_until(0, 1, 1000, FARTHEST_US) == 0
    assert PacedWindow().paced_until(0, 1, 1, FARTHEST_US) == 0


def test_what_is_left_lasts_until_more_comes() -> None:
    """A third has come at once: the other two have to last a minute, or nearly."""
    window = used(1200)
    distance = window.paced_until(0, 1, 3600, FARTHEST_US)
    assert 0.85 * HELD_US / 2400 <= distance <= HELD_US / 2400
    assert window.paced_until(distance, 1, 3600, FARTHEST_US) == 0


def test_whoever_waits_gets_his_turn() -> None:
    """The distance is as short as those who wait need; where the quota cannot do that, there is none."""
    window = used(1200)
    assert window.paced_until(0, 1, 3600, 20_000) == 20_000
    assert window.paced_until(0, 1, 3600, 10_000) == 0


def test_a_small_quota_is_not_spread() -> None:
    """Nobody waits seconds for what is there."""
    assert used(5).paced_until(0, 1, 10, 60 * SECOND_US) == 0


@given(st.lists(st.integers(1, 400), min_size=1, max_size=60), st.integers(1, 50), st.integers(0, 2_000_000))
def test_a_distance_is_never_longer_than_is_borne(amounts: list[int], amount: int, most_us: int) -> None:
    """Whatever has been used."""
    window = used(*amounts)
    now = (len(amounts) - 1) * SECOND_US
    at = window.paced_until(now, amount, 3600, most_us)
    assert at == 0 or now < at <= now + min(most_us, FARTHEST_US)


def test_little_that_is_left_is_spread_over_the_time_to_its_reset() -> None:
    """Ten calls within ten seconds: one a second, more or less."""
    spread = Spread()
    spread.observe("b", RateLimitHint(100, None, 10, None, 10.0), 0.0)
    assert "b" in spread
    assert spread.wait_s("b", 0, 5.0, 0.0) == pytest.approx(1.0)
    assert spread.wait_s("b", 0, 0.5, 0.0) == 0.0  # nobody bears so long
    assert spread.wait_s("b", 0, 5.0, 1.0) == pytest.approx(10 / 9 - 1.0)
    assert spread.wait_s("b", 0, 5.0, 10.0) == 0.0
    assert "b" not in spread


def test_tokens_are_spread_by_what_a_call_takes() -> None:
    """Half of what is left waits for half of the time."""
    spread = Spread()
    spread.observe("b", RateLimitHint(None, 100_000, None, 1000, None, 10.0), 0.0)
    assert spread.wait_s("b", 500, 60.0, 0.0) == pytest.approx(5.0)
    assert spread.wait_s("b", 10, 60.0, 0.0) == pytest.approx(0.1)


@pytest.mark.parametrize(
    "quota",
    [
        pytest.param(RateLimitHint(), id="says nothing"),
        pytest.param(RateLimitHint(100, None, 50, None, 10.0), id="much"),
        pytest.param(RateLimitHint(100, None, 5), id="until nobody knows when"),
        pytest.param(RateLimitHint(100, None, 0, None, 10.0), id="nothing: it cools"),
    ],
)
def test_a_fresh_quota_slows_nobody(quota: RateLimitHint) -> None:
    """Nor one that is not known, nor one that has run out."""
    spread = Spread()
    spread.observe("b", quota, 0.0)
    assert "b" not in spread
    assert spread.wait_s("b", 10, 60.0, 0.0) == 0.0


def test_a_later_word_counts() -> None:
    """Much is left again; an answer that says nothing changes nothing."""
    spread = Spread()
    spread.observe("b", RateLimitHint(100, None, 5, None, 10.0), 0.0)
    spread.observe("b", RateLimitHint(), 1.0)
    assert "b" in spread
    spread.observe("b", RateLimitHint(100, None, 90, None, 10.0), 1.0)
    assert "b" not in spread


def test_a_call_that_does_not_go_after_all_is_not_counted() -> None:
    """The next one goes when it would have gone."""
    spread = Spread()
    spread.observe("b", RateLimitHint(100, None, 10, None, 10.0), 0.0)
    for _ in range(2):
        assert spread.wait_s("b", 0, 5.0, 1.0) == 0.0
        spread.take_back("b", 0, 1.0)
    spread.take_back("other", 0, 1.0)
    assert spread.wait_s("b", 0, 5.0, 0.5) == pytest.approx(0.5)


def test_what_is_left_is_each_keys_own() -> None:
    """Those that never come again are forgotten by the calls of others."""
    spread = Spread()
    spread.observe("b#1", RateLimitHint(100, None, 10, None, 10.0), 0.0)
    assert "b" in spread
    assert [spread.knows(one) for one in ("b#1", "b#2", "b")] == [True, False, False]
    assert spread.wait_s("b#2", 0, 5.0, 0.0) == 0.0
    assert spread.wait_s("b#1", 0, 5.0, 0.0) > 0.0
    assert spread.wait_s("b#2", 0, 5.0, 10.0) == 0.0
    assert "b" not in spread
