"""Quota headers and the forms of "come back later"."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ext_proc.openai.ratelimits import (
    MAX_WAIT_S,
    RateLimitHint,
    parse_hints,
    reset_s,
    retry_after_s,
    speaks_of_quota,
)

MOMENT = datetime(2026, 11, 6, 8, 49, 37, tzinfo=UTC)
NOW = MOMENT.timestamp()
IN_3_S = MOMENT + timedelta(seconds=3)

# What reads hints inside Envoy is held to these, too.
RETRY_AFTER_CASES = [
    pytest.param({"retry-after": "\x1d7\x1f"}, None, id="odd white space"),
    pytest.param({"retry-after": "7"}, 7.0, id="seconds"),
    pytest.param({"retry-after": " 7 "}, 7.0, id="padded"),
    pytest.param({"retry-after": "1.5"}, 1.5, id="fraction"),
    pytest.param({"retry-after": "1." + "9" * 19}, None, id="too fine a fraction"),
    pytest.param({"retry-after": "Fri, 06 Nov 2026 08:49:40 GMT"}, 3.0, id="imf-fixdate"),
    pytest.param({"retry-after": "Friday, 06-Nov-26 08:49:40 GMT"}, 3.0, id="rfc-850"),
    pytest.param({"retry-after": "Fri Nov  6 08:49:40 2026"}, 3.0, id="asctime"),
    pytest.param({"retry-after": "fri, 06 nov 2026 08:49:40 gmt"}, 3.0, id="date-lower-case"),
    pytest.param({"retry-after-ms": "250"}, 0.25, id="milliseconds"),
    pytest.param({"retry-after-ms": "250", "retry-after": "7"}, 0.25, id="milliseconds-first"),
    pytest.param({"retry-after-ms": "soon", "retry-after": "7"}, 7.0, id="junk-milliseconds"),
    pytest.param({"retry-after-ms": "-5", "retry-after": "7"}, 7.0, id="negative-milliseconds"),
    pytest.param({}, None, id="absent"),
    pytest.param({"retry-after": ""}, None, id="empty"),
    pytest.param({"retry-after": "0"}, None, id="zero"),
    pytest.param({"retry-after": "-5"}, None, id="negative"),
    pytest.param({"retry-after": "soon"}, None, id="word"),
    pytest.param({"retry-after": "nan"}, None, id="nan"),
    pytest.param({"retry-after": "inf"}, None, id="inf"),
    pytest.param({"retry-after": "1e3"}, None, id="exponent"),
    pytest.param({"retry-after": "٣"}, None, id="arabic-digit"),
    pytest.param({"retry-after": "9" * 400}, None, id="400-digits"),
    pytest.param({"retry-after": "99999999999"}, None, id="absurd"),
    pytest.param({"retry-after": "Fri, 06 Nov 2026 08:49:30 GMT"}, None, id="past-date"),
    pytest.param({"retry-after": "Sunday, 06-Nov-94 08:49:37 GMT"}, None, id="past-rfc-850"),
    pytest.param({"retry-after": "Fri, 31 Feb 2026 08:49:40 GMT"}, None, id="no-such-day"),
    pytest.param({"retry-after": "Fri, 06 Nox 2026 08:49:40 GMT"}, None, id="no-such-month"),
    pytest.param({"retry-after": "Fri, 06 Nov 2026 28:49:40 GMT"}, None, id="no-such-hour"),
    pytest.param({"retry-after": "Fri, 06 Nov 0000 08:49:40 GMT"}, None, id="year-0"),
    pytest.param({"retry-after": "Fri, 06 Nov 2026 08:49:40 CET"}, None, id="another-zone"),
]
RESET_CASES = [
    ("1ms", 0.001),
    ("1." + "0" * 13 + "s", None),
    ("1" * 13 + "ms", None),
    ("1500ms", 1.5),
    ("2s", 2.0),
    ("6m0s", 360.0),
    ("1h2m3.5s", 3723.5),
    ("1d", 86_400.0),
    ("7.66s", 7.66),
    ("120µs", 0.00012),
    ("2", 2.0),
    ("59.5", 59.5),
    (" 2s ", 2.0),
    (IN_3_S.isoformat(), 3.0),
    ("2026-11-06T08:49:40Z", 3.0),
    ("2026-11-06T08:49:40.500Z", 3.5),
    ("2026-11-06T16:49:40+08:00", 3.0),
    ("2026-11-06T08:49:40", 3.0),
    (str(int(NOW) + 3), 3.0),
    (f"{NOW + 3:.3f}", 3.0),
    (str((int(NOW) + 3) * 1000), 3.0),
    (None, None),
    ("", None),
    ("0", None),
    ("0s", None),
    ("-2s", None),
    ("-1", None),
    ("soon", None),
    ("2 s", None),
    ("2x", None),
    ("s", None),
    ("1.2.3s", None),
    ("2026-11-06T08:49:30Z", None),
    (str(int(NOW) - 3), None),
    ("9999-12-31T23:59:59Z", None),
    ("0001-01-01T00:00:00+14:00", None),
    ("9" * 60 + "s", None),
    ("400d", None),
]


@pytest.mark.parametrize(("headers", "wait"), RETRY_AFTER_CASES)
def test_retry_after(headers: dict[str, str], wait: float | None) -> None:
    """Numbers, fractions and three date forms; junk, negative and past are none."""
    assert retry_after_s(headers, NOW) == pytest.approx(wait)


@pytest.mark.parametrize(("text", "wait"), RESET_CASES)
def test_resets(text: str | None, wait: float | None) -> None:
    """Durations, ISO and epoch times, small numbers; junk, negative and past are none."""
    assert reset_s(text, NOW) == pytest.approx(wait, abs=1e-3 if wait else None)


def test_openais_six_headers() -> None:
    """All six are read."""
    headers = {
        "x-ratelimit-limit-requests": "3500",
        "x-ratelimit-limit-tokens": "90000",
        "x-ratelimit-remaining-requests": "3499",
        "x-ratelimit-remaining-tokens": "89964",
        "x-ratelimit-reset-requests": "17ms",
        "x-ratelimit-reset-tokens": "24ms",
        "content-type": "application/json",
    }
    assert parse_hints(headers, NOW) == RateLimitHint(3500, 90_000, 3499, 89_964, 0.017, 0.024)


@pytest.mark.parametrize("text", ["-1", "many", "1.5", "", "1e3", "9" * 18, "0x10"])
def test_junk_counts_are_unknown(text: str) -> None:
    """What is no count of a believable size is not learned."""
    assert parse_hints({"x-ratelimit-remaining-requests": text}, NOW) == RateLimitHint()


@pytest.mark.parametrize(
    ("hint", "exhausted", "wait"),
    [
        pytest.param(RateLimitHint(), None, None, id="nothing"),
        pytest.param(RateLimitHint(remaining_requests=0, reset_requests_s=2.0), 2.0, 2.0, id="requests"),
        pytest.param(
            RateLimitHint(
                remaining_requests=5, reset_requests_s=90.0, remaining_tokens=0, reset_tokens_s=2.0
            ),
            2.0,
            2.0,
            id="only-what-ran-out",
        ),
        pytest.param(
            RateLimitHint(remaining_requests=0, reset_requests_s=9.0, remaining_tokens=0, reset_tokens_s=2.0),
            9.0,
            9.0,
            id="both-ran-out",
        ),
        pytest.param(
            RateLimitHint(remaining_requests=0, reset_requests_s=9.0, retry_after_s=1.0),
            9.0,
            1.0,
            id="retry-after",
        ),
        pytest.param(RateLimitHint(reset_requests_s=9.0, reset_tokens_s=2.0), None, 2.0, id="resets-only"),
        pytest.param(RateLimitHint(remaining_tokens=0), None, None, id="no-reset"),
    ],
)
def test_which_hint_counts(hint: RateLimitHint, exhausted: float | None, wait: float | None) -> None:
    """Retry-After first, then what ran out; a reset of what is left does not make anyone wait for it."""
    assert hint.exhausted_for_s == exhausted
    assert hint.wait_s == wait
    assert hint.is_exhausted is (hint.remaining_requests == 0 or hint.remaining_tokens == 0)


@given(st.text(max_size=40), st.floats(0, 4e9))
def test_no_text_raises_and_every_wait_is_believable(text: str, now: float) -> None:
    """Whatever a provider writes, a wait is positive and bounded, or none."""
    for wait in (
        retry_after_s({"retry-after": text}, now),
        retry_after_s({"retry-after-ms": text}, now),
        reset_s(text, now),
    ):
        assert wait is None or 0 < wait <= MAX_WAIT_S


@given(st.datetimes(datetime(2000, 1, 1), datetime(2060, 1, 1)), st.integers(1, 86_400))
def test_the_three_date_forms_agree(now: datetime, ahead: int) -> None:
    """Any date ahead, in any of the three forms, is the same wait."""
    now = now.replace(microsecond=0, tzinfo=UTC)
    then = now + timedelta(seconds=ahead)
    for text in (
        f"{then:%a, %d %b %Y %H:%M:%S} GMT",
        f"{then:%A, %d-%b-%y %H:%M:%S} GMT",
        f"{then:%a %b} {then.day:2d} {then:%H:%M:%S %Y}",
    ):
        assert retry_after_s({"retry-after": text}, now.timestamp()) == pytest.approx(ahead)


@given(st.integers(0, 99), st.integers(0, 59), st.integers(0, 59), st.integers(1, 999))
def test_durations_add_up(hours: int, minutes: int, seconds: int, milliseconds: int) -> None:
    """Go's way to write a duration, which OpenAI uses."""
    total = hours * 3600 + minutes * 60 + seconds + milliseconds / 1000
    assert reset_s(f"{hours}h{minutes}m{seconds}s{milliseconds}ms", NOW) == pytest.approx(total)


@pytest.mark.parametrize(
    ("headers", "speaks"),
    [
        ({"x-ratelimit-limit-tokens": "1"}, True),
        ({"anthropic-ratelimit-requests-remaining": "1"}, True),
        ({"content-type": "application/json", "retry-after": "1"}, False),
    ],
)
def test_who_speaks_of_a_quota(headers: dict[str, str], *, speaks: bool) -> None:
    """By the names alone."""
    assert speaks_of_quota(headers) is speaks
