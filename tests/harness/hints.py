"""Every form in which a provider says when to come back, with how long that is: for all that read them.

Headers hold `{name}` where a moment stands, since whoever reads them has a clock of its own.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

NEVER_SAID: Final = math.inf
"""The provider is to be left alone and does not say how long."""


@dataclass(frozen=True, slots=True)
class HintCase:
    """`wait_s`: how long to leave the provider alone; 0 when it has not asked for that."""

    name: str
    status: int
    headers: dict[str, str] = field(hash=False)
    wait_s: float

    def headers_at(self, now_s: float) -> dict[str, str]:
        """Return the headers as they are written at `now_s` (whole seconds since the epoch)."""
        ahead, past = now_s + 3, now_s - 30
        moments = {
            "imf": f"{_at(ahead):%a, %d %b %Y %H:%M:%S} GMT",
            "rfc850": f"{_at(ahead):%A, %d-%b-%y %H:%M:%S} GMT",
            "asctime": f"{_at(ahead):%a %b} {_at(ahead).day:2d} {_at(ahead):%H:%M:%S %Y}",
            "past": f"{_at(past):%a, %d %b %Y %H:%M:%S} GMT",
            "iso": f"{_at(ahead):%Y-%m-%dT%H:%M:%SZ}",
            "iso_zone": f"{_at(ahead + 8 * 3600):%Y-%m-%dT%H:%M:%S}+08:00",
            "iso_past": f"{_at(past):%Y-%m-%dT%H:%M:%SZ}",
            "epoch": f"{ahead:.0f}",
            "epoch_ms": f"{ahead * 1000:.0f}",
            "epoch_past": f"{past:.0f}",
        }
        return {name: value.format(**moments) for name, value in self.headers.items()}


def _at(moment_s: float) -> datetime:
    return datetime.fromtimestamp(moment_s, UTC)


def _requests(reset: str, remaining: str = "0") -> dict[str, str]:
    return {"x-ratelimit-remaining-requests": remaining, "x-ratelimit-reset-requests": reset}


CASES: Final = (
    # Retry-After.
    HintCase("seconds", 429, {"retry-after": "7"}, 7.0),
    HintCase("seconds of a 503", 503, {"retry-after": "7"}, 7.0),
    HintCase("fraction", 429, {"retry-after": "1.5"}, 1.5),
    HintCase("padded", 429, {"retry-after": " 2 "}, 2.0),
    HintCase("IMF-fixdate", 429, {"retry-after": "{imf}"}, 3.0),
    HintCase("RFC 850", 429, {"retry-after": "{rfc850}"}, 3.0),
    HintCase("asctime", 429, {"retry-after": "{asctime}"}, 3.0),
    HintCase("past date", 429, {"retry-after": "{past}"}, NEVER_SAID),
    HintCase("word", 429, {"retry-after": "soon"}, NEVER_SAID),
    HintCase("negative", 429, {"retry-after": "-5"}, NEVER_SAID),
    HintCase("zero", 429, {"retry-after": "0"}, NEVER_SAID),
    HintCase("empty", 429, {"retry-after": ""}, NEVER_SAID),
    HintCase("absurd", 429, {"retry-after": "99999999999999"}, NEVER_SAID),
    HintCase("absent", 429, {}, NEVER_SAID),
    # Milliseconds go first.
    HintCase("milliseconds", 429, {"retry-after-ms": "1500"}, 1.5),
    HintCase("milliseconds first", 429, {"retry-after-ms": "1500", "retry-after": "7"}, 1.5),
    HintCase("Azure's milliseconds", 429, {"x-ms-retry-after-ms": "1500", "retry-after": "7"}, 1.5),
    HintCase("junk milliseconds", 429, {"retry-after-ms": "soon", "retry-after": "7"}, 7.0),
    HintCase("negative milliseconds", 429, {"retry-after-ms": "-1", "retry-after": "7"}, 7.0),
    # The reset of what has run out.
    HintCase("1ms", 429, _requests("1ms"), 0.001),
    HintCase("1500ms", 429, _requests("1500ms"), 1.5),
    HintCase("2s", 429, _requests("2s"), 2.0),
    HintCase("6m0s", 429, _requests("6m0s"), 360.0),
    HintCase("1h2m3.5s", 429, _requests("1h2m3.5s"), 3723.5),
    HintCase("small number", 429, _requests("2"), 2.0),
    HintCase("fraction of a second", 429, _requests("0.25"), 0.25),
    HintCase("ISO", 429, _requests("{iso}"), 3.0),
    HintCase("ISO with a zone", 429, _requests("{iso_zone}"), 3.0),
    HintCase("UNIX time", 429, _requests("{epoch}"), 3.0),
    HintCase("UNIX time in milliseconds", 429, _requests("{epoch_ms}"), 3.0),
    HintCase("HTTP date", 429, _requests("{imf}"), 3.0),
    HintCase("past ISO", 429, _requests("{iso_past}"), NEVER_SAID),
    HintCase("past UNIX time", 429, _requests("{epoch_past}"), NEVER_SAID),
    HintCase("junk reset", 429, _requests("soon"), NEVER_SAID),
    HintCase("negative reset", 429, _requests("-2s"), NEVER_SAID),
    HintCase("Retry-After before a reset", 429, {"retry-after": "1", **_requests("6m0s")}, 1.0),
    HintCase(
        "of what has run out only",
        429,
        {
            **_requests("2s"),
            "x-ratelimit-remaining-tokens": "100",
            "x-ratelimit-reset-tokens": "6m0s",
        },
        2.0,
    ),
    HintCase(
        "both have run out",
        429,
        {**_requests("2s"), "x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "5s"},
        5.0,
    ),
    HintCase(
        "an empty one beside a good one",
        429,
        {"retry-after": "", **_requests(""), "x-ratelimit-reset-tokens": "2s"},
        2.0,
    ),
    HintCase("a reset without what remains", 429, {"x-ratelimit-reset-tokens": "2s"}, 2.0),
    HintCase(
        "Anthropic's",
        429,
        {"anthropic-ratelimit-tokens-remaining": "0", "anthropic-ratelimit-tokens-reset": "{iso}"},
        3.0,
    ),
    HintCase("OpenRouter's", 429, {"x-ratelimit-remaining": "0", "x-ratelimit-reset": "{epoch_ms}"}, 3.0),
    # Any answer that says that nothing remains.
    HintCase("nothing remains after a 200", 200, _requests("2s"), 2.0),
    HintCase(
        "nothing remains, nobody knows how long", 200, {"x-ratelimit-remaining-requests": "0"}, NEVER_SAID
    ),
    HintCase("something remains", 200, _requests("6m0s", "1"), 0.0),
    HintCase("Retry-After of a 200", 200, {"retry-after": "7"}, 0.0),
    HintCase("no limit at all", 200, {"x-ratelimit-limit-requests": "0", **_requests("2s")}, 0.0),
    HintCase("plain 200", 200, {}, 0.0),
    HintCase("plain 500", 500, {}, 0.0),
    # Waiting is of no use.
    HintCase("do not retry", 429, {"x-should-retry": "false"}, 0.0),
    HintCase("do not retry, but later", 429, {"x-should-retry": "false", "retry-after": "2"}, 2.0),
)
