"""Milliseconds to be gained, and the field of Outrigger's policy that gains them (pure).

A difference becomes a finding only when its whole interval is above zero and it is worth having; the others
are told as sentences, so that nobody tries what would bring nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from control_plane.tools.diagnose.estimates import Estimate
from control_plane.tools.diagnose.readings import Readings

WORTH_MS: Final = 0.5
WORTH_SHARE: Final = 0.02  # of a short call
FEW: Final = 4  # fewer calls show nothing but themselves
ENOUGH: Final = 8  # calls whose order leaves less than 5 % to chance


class Certainty(StrEnum):
    """How sure a finding is."""

    SURE = "sure"  # the interval holds 19 times in 20
    LIKELY = "likely"  # above zero in every call, but they are few
    AT_MOST = "at most"  # how often it is gained depends on the traffic


@dataclass(frozen=True, slots=True)
class Setting:
    """What to set: `fields` in the `spec` of a document of `kind`."""

    kind: str
    fields: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Finding:
    """How many milliseconds `each` such call gains, why we think so, and what to set for it.

    `advice` says what else is to be thought of, "" for nothing.
    """

    gain: Estimate
    each: str
    because: str
    setting: Setting
    certainty: Certainty
    advice: str = ""


@dataclass(frozen=True, slots=True)
class Findings:
    """Findings, the most milliseconds first, and sentences on what gains nothing."""

    found: tuple[Finding, ...]
    nothing: tuple[str, ...]


def findings(readings: Readings) -> Findings:
    """Return what the readings say can be gained."""
    found: list[Finding] = []
    nothing: list[str] = []
    least = max(WORTH_MS, WORTH_SHARE * (readings.total.value if readings.total else 0.0))
    for finding in _possible(readings):
        if finding.gain.n < FEW and finding.certainty is not Certainty.AT_MOST:
            nothing.append(f"{finding.because} These are too few calls to tell; raise --requests.")
        elif finding.gain.low > 0 and finding.gain.value >= least:
            found.append(finding)
        else:
            nothing.append(f"{finding.because} That is within the noise, or too little.")
    if readings.sidecar:
        nothing.append(
            "Connections are those to the sidecar, which keeps its own to the provider; to see what those "
            "cost, ask the provider directly."
        )
    found.sort(key=lambda finding: -finding.gain.value)
    return Findings(tuple(found), tuple(nothing))


def _possible(readings: Readings) -> Iterator[Finding]:
    yield from _cold(readings)
    yield from _connections(readings)
    yield from _load(readings)
    yield from _lengths(readings)
    yield from _repeats(readings)
    if readings.lost is not None:
        told = ", ".join(f"{count} × {reason}" for reason, count in readings.failures)
        because = f"Tries failed ({told}) and were made again after {ms(readings.lost.value)}."
        setting = Setting("Policy", {"retry": {"attempts": 3}, "hold": {"max": "10s"}})
        yield Finding(readings.lost, "refused or broken call", because, setting, Certainty.AT_MOST)


def _cold(readings: Readings) -> Iterator[Finding]:
    setting = Setting("Backend", {"warmup": {"requests": 8, "prompt": "Hello", "idleAfter": "10m"}})
    advice = "One call cannot tell how long the provider stays warm: try --pause."
    for warmth, name in ((readings.first, "The first call"), (readings.paused, "The call after the pause")):
        if warmth is not None and warmth.above is not None:
            because = f"{name} took {ms(warmth.total_ms)}, later ones {_one(readings.fresh)}."
            yield Finding(warmth.above, "cold call", because, setting, Certainty.LIKELY, advice)
        advice = ""


def _connections(readings: Readings) -> Iterator[Finding]:
    if readings.sidecar:
        return
    gain, count = readings.opening, readings.at_once
    if gain is not None:
        because = (
            f"On a new connection a call takes {_one(readings.fresh)}, on a kept one {_one(readings.total)}."
        )
        setting = Setting("Backend", {"http": "auto"})
        advice = "The sidecar keeps connections for its applications; `auto` is the default."
        yield Finding(gain, "call on a new connection", because, setting, _sure(gain), advice)
    setting = Setting("Backend", {"http": "2"})
    if (gain := readings.http2_at_once) is not None:
        took = _both(readings.burst.fresh, readings.http2_burst.fresh)
        because = f"{count} calls at once on new connections take {took} by HTTP/1.1 and HTTP/2."
        yield Finding(gain, "call of a burst", because, setting, _sure(gain))
    if (gain := readings.http2) is not None:
        took = _both(readings.total, readings.http2_total)
        because = f"One call at a time takes {took} by HTTP/1.1 and HTTP/2."
        yield Finding(gain, "call", because, setting, _sure(gain))


def _load(readings: Readings) -> Iterator[Finding]:
    if readings.load is None:
        return
    because = (
        f"{readings.at_once} calls at once take {_one(readings.burst.kept)} each, one alone "
        f"{_one(readings.total)}."
    )
    setting = Setting("Policy", {"batch": {"mode": "array", "maxSize": max(2, readings.at_once)}})
    advice = "They wait for each other. `array` needs a server that takes lists, `packed` none; see `tune`."
    yield Finding(readings.load, "call under load", because, setting, Certainty.AT_MOST, advice)


def _lengths(readings: Readings) -> Iterator[Finding]:
    curve, warmed = readings.prompt, readings.temperatures
    if curve is not None:
        slope, where = curve.slope, ""
        if curve.slope_past is not None and curve.knee is not None:
            slope, where = curve.slope_past, f" from {curve.knee.value:,.0f} tokens on"
        gain = slope.times(1000)
        because = f"Each 1,000 tokens of prompt take {ms(gain.value)}{where}."
        setting = Setting("Policy", {"session": {"enabled": True, "turns": 4}})
        advice = "Sessions send the last turns, not the whole conversation."
        yield Finding(gain, "1,000 prompt tokens less", because, setting, _sure(gain), advice)
    if (hotter := readings.hotter) is not None and len(warmed) > 1:
        low, high = warmed[0], warmed[-1]
        because = (
            f"At temperature {high.temperature:g} answers are {high.tokens.value:.0f} tokens, "
            f"at {low.temperature:g} {low.tokens.value:.0f}."
        )
        setting = Setting("Policy", {"parameters": {"temperature": {"max": max(0.3, low.temperature)}}})
        each = f"call at temperature {high.temperature:g}"
        yield Finding(hotter, each, because, setting, _sure(hotter))
    if readings.per_token is not None:
        gain = readings.per_token.times(100)
        because = f"Each 100 tokens of answer take {ms(gain.value)}."
        setting = Setting("Policy", {"parameters": {"maxTokens": {"max": 256}}})
        advice = "Choose the cap by what your answers need."
        yield Finding(gain, "100 answer tokens cut", because, setting, _sure(gain), advice)


def _repeats(readings: Readings) -> Iterator[Finding]:
    """The cache answers without a call; coalescing joins equal calls that are under way."""
    whole = readings.temperatures[0].total if readings.temperatures else readings.total
    if whole is not None:
        because = f"A call that repeats an earlier one takes {ms(whole.value)} again."
        setting = Setting("Policy", {"cache": {"enabled": True}, "coalesce": {"enabled": True}})
        yield Finding(whole, "repeated call", because, setting, Certainty.AT_MOST)


def _sure(gain: Estimate) -> Certainty:
    return Certainty.SURE if gain.n >= ENOUGH else Certainty.LIKELY


def ms(value: float) -> str:
    """Return milliseconds as people read them: three digits that count."""
    if abs(value) >= 9_999.5:
        return f"{value / 1000:,.1f} s"
    if abs(value) >= 99.95:
        return f"{value:,.0f} ms"
    return f"{value:.1f} ms" if abs(value) >= 9.995 else f"{value:.2f} ms"


def _one(estimate: Estimate | None) -> str:
    return "–" if estimate is None else ms(estimate.value)


def _both(one: Estimate | None, other: Estimate | None) -> str:
    return f"{_one(one)} and {_one(other)}"
