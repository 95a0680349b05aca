"""A diagnosis as JSON and as rows of text (pure). Times are milliseconds."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import orjson

from control_plane.tools.diagnose.estimates import Estimate
from control_plane.tools.diagnose.findings import Finding, Findings, ms
from control_plane.tools.diagnose.fitting import Curve
from control_plane.tools.diagnose.readings import Burst, Readings, Warmth

Row = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Spent:
    """What was diagnosed, and what that took: tries and tokens."""

    url: str
    model: str
    requests: int
    tokens: int
    seconds: float


def as_json(spent: Spent, readings: Readings, found: Findings) -> dict[str, Any]:
    """Return the report; every name is always there, null where nothing was measured (`unmeasured` says why).

    `connect`, `tls`, `ttfb`, `total` are medians; `cold` is the time of the first call.
    """
    return {
        "url": spent.url,
        "model": spent.model,
        "sidecar": readings.sidecar,
        "requests": spent.requests,
        "tokens": spent.tokens,
        "seconds": round(spent.seconds, 1),
        "dns": _value(readings.dns),
        "connect": _value(readings.connect),
        "tls": _value(readings.tls),
        "ttfb": _value(readings.ttfb),
        "total": _value(readings.total),
        "cold": _number(readings.first.total_ms),
        "phases": {
            name: _estimate(getattr(readings, name)) for name in ("dns", "connect", "tls", "ttfb", "total")
        },
        "cold_start": {"first": _warmth(readings.first), "after_pause": _warmth(readings.paused)},
        "connections": {
            "new": _estimate(readings.fresh),
            "kept": _estimate(readings.total),
            "gain": _estimate(readings.opening),
        },
        "http2": {
            "kept": _estimate(readings.http2_total),
            "gain": _estimate(readings.http2),
            "gain_at_once": _estimate(readings.http2_at_once),
        },
        "burst": {
            "concurrency": readings.at_once,
            "http1": _burst(readings.burst),
            "http2": _burst(readings.http2_burst),
            "load": _estimate(readings.load),
        },
        "prompt": _prompt(readings),
        "temperature": _temperature(readings),
        "stream": {
            "first_token": _estimate(readings.first_token),
            "between_tokens": _estimate(readings.between_tokens),
            "total": _estimate(readings.streamed),
        },
        "failures": dict(readings.failures),
        "findings": [_finding(one) for one in found.found],
        "no_gain": list(found.nothing),
        "unmeasured": [{"what": name, "why": gap.value} for name, gap in readings.gaps],
    }


def measured(readings: Readings) -> list[Row]:
    """Return a row for each reading: its name, median, interval, number of calls."""
    return list(_measured(readings))


def gains(found: Findings) -> list[Row]:
    """Return a row for each finding: number, gain, interval, for what, what to set, how sure."""
    return [
        (
            str(number),
            ms(one.gain.value),
            interval(one.gain) if one.gain.n > 1 else "",
            one.each,
            f"{one.setting.kind} {inline(one.setting.fields)}",
            f"{one.certainty}, n={one.gain.n}",
        )
        for number, one in enumerate(found.found, 1)
    ]


def reasons(found: Findings) -> list[str]:
    """Return why, a sentence or two for each finding, with its number."""
    return [f"{number}: {one.because} {one.advice}".rstrip() for number, one in enumerate(found.found, 1)]


def gaps(readings: Readings) -> list[str]:
    """Return what is not measured and why, a sentence for each reason."""
    by_reason: dict[str, list[str]] = {}
    for name, gap in readings.gaps:
        by_reason.setdefault(gap.value, []).append(name)
    return [f"{', '.join(names)}: {reason}" for reason, names in by_reason.items()]


def inline(value: Any) -> str:
    """Return a value as YAML in one line."""
    if isinstance(value, dict):
        return ", ".join(f"{name}: {_braced(one)}" for name, one in value.items())
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str) and not value.isidentifier() and not value[:1].isdigit():
        return orjson.dumps(value).decode()
    return f'"{value}"' if isinstance(value, str) and value.replace(".", "").isdigit() else str(value)


def interval(estimate: Estimate) -> str:
    """Return the 95 % interval of a time."""
    if math.isinf(estimate.low) or math.isinf(estimate.high):
        return "unknown"
    return f"{ms(estimate.low)} … {ms(estimate.high)}"


def _braced(value: Any) -> str:
    return f"{{{inline(value)}}}" if isinstance(value, dict) else inline(value)


def _measured(readings: Readings) -> Iterator[Row]:
    burst, burst2, count = readings.burst, readings.http2_burst, readings.at_once
    kept = ", connection kept" if readings.kept else ""
    yield ("first call", ms(readings.first.total_ms), "", "1")
    if readings.paused is not None:
        yield ("call after the pause", ms(readings.paused.total_ms), "", "1")
    for name, estimate in (
        ("DNS", readings.dns),
        ("TCP connect", readings.connect),
        ("TLS handshake", readings.tls),
        (f"first byte{kept}", readings.ttfb),
        (f"whole call{kept}", readings.total),
        ("whole call, new connection", readings.fresh),
        ("whole call, HTTP/2 kept", readings.http2_total),
        (f"{count} at once, new connections", burst.fresh),
        (f"{count} at once, kept connections", burst.kept),
        (f"{count} at once, HTTP/2, new connection", burst2.fresh),
        (f"{count} at once, HTTP/2, kept connection", burst2.kept),
    ):
        yield from _row(name, estimate)
    if readings.prompt is not None:
        yield from _curve(readings.prompt)
    for one in readings.temperatures:
        name = f"answer at temperature {one.temperature:g}: {one.tokens.value:.0f} tokens"
        yield from _row(name, one.total)
    yield from _row("each token of an answer", readings.per_token)
    yield from _row("stream: first token", readings.first_token)
    yield from _row("stream: between tokens", readings.between_tokens)


def _row(name: str, estimate: Estimate | None) -> Iterator[Row]:
    if estimate is not None:
        yield (name, ms(estimate.value), interval(estimate) if estimate.n > 1 else "", str(estimate.n))


def _curve(curve: Curve) -> Iterator[Row]:
    if curve.knee is None or curve.slope_past is None:
        yield from _row("1,000 prompt tokens", curve.slope.times(1000))
        return
    knee = curve.knee
    yield from _row(f"1,000 prompt tokens, up to {knee.value:,.0f}", curve.slope.times(1000))
    yield from _row(f"1,000 prompt tokens, from {knee.value:,.0f}", curve.slope_past.times(1000))
    yield (
        "knee of the prompt's length",
        f"{knee.value:,.0f} tokens",
        f"{knee.low:,.0f} … {knee.high:,.0f} tokens",
        str(knee.n),
    )


def _prompt(readings: Readings) -> dict[str, Any]:
    curve = readings.prompt
    past = curve.slope_past if curve is not None else None
    return {
        "slope_per_1000": _estimate(curve.slope.times(1000) if curve is not None else None),
        "slope_per_1000_past_knee": _estimate(past.times(1000) if past is not None else None),
        "knee_tokens": _estimate(curve.knee if curve is not None else None),
        "points": [{"tokens": tokens, "ttfb": _number(height)} for tokens, height in readings.prompt_points],
    }


def _temperature(readings: Readings) -> dict[str, Any]:
    return {
        "points": [
            {
                "temperature": one.temperature,
                "output_tokens": _value(one.tokens),
                "total": _value(one.total),
                "n": one.total.n,
            }
            for one in readings.temperatures
        ],
        "gain": _estimate(readings.hotter),
        "per_output_token": _estimate(readings.per_token),
    }


def _burst(burst: Burst) -> dict[str, Any]:
    return {"new": _estimate(burst.fresh), "kept": _estimate(burst.kept)}


def _warmth(warmth: Warmth | None) -> dict[str, Any] | None:
    if warmth is None:
        return None
    return {"total": _number(warmth.total_ms), "gain": _estimate(warmth.above)}


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        "gain_ms": _value(finding.gain),
        "low": _number(finding.gain.low),
        "high": _number(finding.gain.high),
        "n": finding.gain.n,
        "certainty": finding.certainty.value,
        "each": finding.each,
        "because": finding.because,
        "advice": finding.advice,
        "kind": finding.setting.kind,
        "policy": inline(finding.setting.fields),
        "spec": finding.setting.fields,
    }


def _estimate(estimate: Estimate | None) -> dict[str, Any] | None:
    if estimate is None:
        return None
    return {
        "value": _number(estimate.value),
        "low": _number(estimate.low),
        "high": _number(estimate.high),
        "n": estimate.n,
    }


def _value(estimate: Estimate | None) -> float | None:
    return None if estimate is None else _number(estimate.value)


def _number(value: float) -> float | None:
    return round(value, 3) if math.isfinite(value) else None
