"""What a provider's headers say about its quota and when to come back (pure; `now` is passed in).

The forms are those of OpenAI (`x-ratelimit-*`), Azure (`retry-after-ms`, `x-ms-retry-after-ms`), Anthropic
(`anthropic-ratelimit-*`), OpenRouter (`x-ratelimit-reset`), of RFC 9110 (`Retry-After`) and of the servers
that mix them. What cannot be read, is negative or lies in the past is no hint.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

MAX_WAIT_S: Final = 366 * 86_400.0  # a longer wait is junk
MAX_COUNT: Final = 10**15
EPOCH_FROM: Final = 1e9  # a larger plain number is a point in time, not a wait
EPOCH_MS_FROM: Final = 1e12

# What the script of attempts takes for space, too; the other signs that `strip` takes make a hint junk.
_SPACE: Final = " \t\n\v\f\r"
_NUMBER: Final = re.compile(r"\d{1,18}(?:\.\d{1,18})?", re.ASCII)
_DURATION: Final = re.compile(r"(?:\d{1,12}(?:\.\d{1,12})?(?:ms|us|µs|ns|d|h|m|s))+", re.ASCII)
_PART: Final = re.compile(r"([\d.]+)(ms|us|µs|ns|d|h|m|s)", re.ASCII)
_UNIT_S: Final = {
    "ns": 1e-9,
    "us": 1e-6,
    "µs": 1e-6,
    "ms": 1e-3,
    "s": 1.0,
    "m": 60.0,
    "h": 3600.0,
    "d": 86400.0,
}
_MONTHS: Final = {
    name: number
    for number, name in enumerate(
        ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"), start=1
    )
}
_CLOCK: Final = r"(?P<h>\d{2}):(?P<m>\d{2}):(?P<s>\d{2})"
_RETRY_AFTER_MS: Final = ("retry-after-ms", "x-ms-retry-after-ms")
_PREFIXES: Final = ("x-ratelimit-", "anthropic-ratelimit-")
# Each of requests, then of tokens.
_LIMITS: Final = (
    ("x-ratelimit-limit-requests", "anthropic-ratelimit-requests-limit", "x-ratelimit-limit"),
    ("x-ratelimit-limit-tokens", "anthropic-ratelimit-tokens-limit"),
)
_REMAINING: Final = (
    ("x-ratelimit-remaining-requests", "anthropic-ratelimit-requests-remaining", "x-ratelimit-remaining"),
    ("x-ratelimit-remaining-tokens", "anthropic-ratelimit-tokens-remaining"),
)
_RESETS: Final = (
    ("x-ratelimit-reset-requests", "anthropic-ratelimit-requests-reset", "x-ratelimit-reset"),
    ("x-ratelimit-reset-tokens", "anthropic-ratelimit-tokens-reset"),
)
QUOTA_HEADERS: Final = (
    "retry-after",
    *_RETRY_AFTER_MS,
    *(name for names in (*_LIMITS, *_REMAINING, *_RESETS) for name in names),
    "x-should-retry",
)
"""The names of all headers that say something of a quota, or when to come again."""

# RFC 9110 section 5.6.7: IMF-fixdate, RFC 850, asctime.
_DATES: Final = tuple(
    re.compile(pattern, re.ASCII | re.IGNORECASE)
    for pattern in (
        rf"[a-z]{{3}}, (?P<day>\d{{2}}) (?P<month>[a-z]{{3}}) (?P<year>\d{{4}}) {_CLOCK} GMT",
        rf"[a-z]{{6,9}}, (?P<day>\d{{2}})-(?P<month>[a-z]{{3}})-(?P<year>\d{{2}}) {_CLOCK} GMT",
        rf"[a-z]{{3}} (?P<month>[a-z]{{3}}) (?P<day>[ \d]\d) {_CLOCK} (?P<year>\d{{4}})",
    )
)


@dataclass(frozen=True, slots=True)
class RateLimitHint:
    """One answer's quota headers. None is unknown; waits are in seconds from now, above 0."""

    limit_requests: int | None = None
    limit_tokens: int | None = None
    remaining_requests: int | None = None
    remaining_tokens: int | None = None
    reset_requests_s: float | None = None
    reset_tokens_s: float | None = None
    retry_after_s: float | None = None

    @property
    def exhausted_for_s(self) -> float | None:
        """How long until what has run out (`remaining` 0) is back; None when nothing has, or no one says."""
        resets = [
            reset
            for remaining, reset in (
                (self.remaining_requests, self.reset_requests_s),
                (self.remaining_tokens, self.reset_tokens_s),
            )
            if remaining == 0 and reset is not None
        ]
        return max(resets, default=None)

    @property
    def is_exhausted(self) -> bool:
        """Whether requests or tokens have run out."""
        return self.remaining_requests == 0 or self.remaining_tokens == 0

    @property
    def wait_s(self) -> float | None:
        """Wait after a refusal (429, 503): Retry-After, else what ran out, else the first reset."""
        if self.retry_after_s is not None:
            return self.retry_after_s
        if self.exhausted_for_s is not None:
            return self.exhausted_for_s
        resets = [reset for reset in (self.reset_requests_s, self.reset_tokens_s) if reset is not None]
        return min(resets, default=None)


def parse_hints(headers: Mapping[str, str], now: float) -> RateLimitHint:
    """Read the quota headers of one answer. Of names that say the same, the first that can be read counts.

    Args:
        headers: lower-case names.
        now: seconds since the epoch.
    """
    limits = [_first_count(headers, names) for names in _LIMITS]
    remaining = [_first_count(headers, names) for names in _REMAINING]
    resets = [
        next((wait for name in names if (wait := reset_s(headers.get(name), now)) is not None), None)
        for names in _RESETS
    ]
    return RateLimitHint(
        limits[0],
        limits[1],
        # Nothing remains of no limit.
        remaining[0] if limits[0] != 0 else None,
        remaining[1] if limits[1] != 0 else None,
        resets[0],
        resets[1],
        retry_after_s(headers, now),
    )


def speaks_of_quota(headers: Mapping[str, str]) -> bool:
    """Say whether any of the headers is about a quota."""
    return any(name.startswith(_PREFIXES) for name in headers)


def retry_after_s(headers: Mapping[str, str], now: float) -> float | None:
    """Return the wait in milliseconds, else of `retry-after` (a number or one of HTTP's three dates)."""
    for name in _RETRY_AFTER_MS:
        milliseconds = _number(headers.get(name))
        if milliseconds is not None and (wait := _believable(milliseconds / 1000)) is not None:
            return wait
    text = headers.get("retry-after")
    seconds = _number(text)
    if seconds is not None:
        return _believable(seconds)
    moment = None if text is None else _http_date(text.strip(_SPACE), now)
    return None if moment is None else _believable(moment - now)


def reset_s(text: str | None, now: float) -> float | None:
    """Return the wait of an `x-ratelimit-reset-*` value.

    `1ms`, `2s`, `6m0s` and `1h2m3.5s` are waits, so is a small number (seconds); a large number is a time
    in seconds or milliseconds since the epoch; an ISO 8601 time without a zone is UTC; HTTP's dates are read.
    """
    if text is None:
        return None
    text = text.strip(_SPACE)
    number = _number(text)
    if number is not None:
        if number >= EPOCH_MS_FROM:
            return _believable(number / 1000 - now)
        return _believable(number - now if number >= EPOCH_FROM else number)
    if _DURATION.fullmatch(text):
        return _believable(sum(float(value) * _UNIT_S[unit] for value, unit in _PART.findall(text)))
    try:
        moment = datetime.fromisoformat(text)
        moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        return _believable(moment.timestamp() - now)
    except (ValueError, OverflowError):
        date = _http_date(text, now)
        return None if date is None else _believable(date - now)


def _believable(wait_s: float) -> float | None:
    return wait_s if 0 < wait_s <= MAX_WAIT_S else None


def _number(text: str | None) -> float | None:
    text = "" if text is None else text.strip(_SPACE)
    return float(text) if _NUMBER.fullmatch(text) else None


def _first_count(headers: Mapping[str, str], names: tuple[str, ...]) -> int | None:
    return next((count for name in names if (count := _count(headers.get(name))) is not None), None)


def _count(text: str | None) -> int | None:
    number = _number(text)
    return int(number) if number is not None and number <= MAX_COUNT and number.is_integer() else None


def _http_date(text: str, now: float) -> float | None:
    for pattern in _DATES:
        match = pattern.fullmatch(text)
        if match is None:
            continue
        year = int(match["year"])
        if len(match["year"]) == 2:
            # RFC 9110: a two-digit year more than 50 years ahead is the last past year of those digits.
            this_year = datetime.fromtimestamp(now, UTC).year
            year += this_year // 100 * 100
            year -= 100 if year > this_year + 50 else 0
        try:
            month = _MONTHS[match["month"].lower()]
            clock = (int(match["h"]), int(match["m"]), min(int(match["s"]), 59))
            return datetime(year, month, int(match["day"]), *clock, tzinfo=UTC).timestamp()
        except (KeyError, ValueError, OverflowError):
            return None
    return None
