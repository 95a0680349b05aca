"""What all samples say together (pure)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean

from control_plane.tools.diagnose.estimates import Estimate, middle, shift
from control_plane.tools.diagnose.fitting import Curve, broken, straight
from control_plane.tools.diagnose.probes import Gap, Probe
from control_plane.tools.diagnose.sample import Sample
from control_plane.tools.diagnose.taken import Taken

LEAST_DIFFERENT_TOKENS = 3


@dataclass(frozen=True, slots=True)
class Warmth:
    """A call that may have met a cold provider: its time, and by how much it is above warm calls."""

    total_ms: float
    above: Estimate | None


@dataclass(frozen=True, slots=True)
class Burst:
    """Calls made at once over one protocol: on connections that had to be opened, and on those kept."""

    fresh: Estimate | None
    kept: Estimate | None


@dataclass(frozen=True, slots=True)
class Warmed:
    """Answers at one temperature: how long they are, in tokens and in time."""

    temperature: float
    tokens: Estimate
    total: Estimate


@dataclass(frozen=True, slots=True)
class Readings:
    """Everything that was measured; None where nothing was, and `gaps` say why.

    Times are milliseconds. `ttfb` and `total` are those of short calls, on kept connections if
    `kept`; with `sidecar` connections are those to one. `opening` is what
    a new connection adds, `http2` what HTTP/2 takes off a short call, `http2_at_once` what it takes off calls
    made at once on new connections, `load` what calls at once wait for, `hotter` what the highest
    temperature adds to the lowest. `prompt` is milliseconds to the first byte by prompt tokens; `per_token`
    is milliseconds a token of the answer.
    """

    sidecar: bool
    first: Warmth
    paused: Warmth | None
    dns: Estimate | None
    connect: Estimate | None
    tls: Estimate | None
    kept: bool
    ttfb: Estimate | None
    total: Estimate | None
    fresh: Estimate | None
    opening: Estimate | None
    http2_total: Estimate | None
    http2: Estimate | None
    at_once: int
    burst: Burst
    http2_burst: Burst
    http2_at_once: Estimate | None
    load: Estimate | None
    prompt: Curve | None
    prompt_points: tuple[tuple[int, float], ...]
    temperatures: tuple[Warmed, ...]
    hotter: Estimate | None
    per_token: Estimate | None
    first_token: Estimate | None
    between_tokens: Estimate | None
    streamed: Estimate | None
    lost: Estimate | None
    failures: tuple[tuple[str, int], ...]
    gaps: tuple[tuple[str, Gap], ...]


def read(taken: Taken, *, tls: bool, at_once: int) -> Readings:
    """Return the readings; `tls` is whether the target speaks it, `at_once` the size of a burst."""
    samples = taken.samples
    first, fresh, kept = samples[Probe.FIRST][0], samples[Probe.FRESH], samples[Probe.KEPT]
    opened = [sample for sample in (first, *fresh) if sample.opened]
    points = tuple(sorted((sample.prompt_tokens, sample.ttfb_ms) for sample in samples[Probe.PROMPT]))
    warmed = _warmed(taken)
    answers = [(float(one.output_tokens), one.total_ms) for one in samples[Probe.TEMPERATURE]]
    line = straight(answers) if len({tokens for tokens, _ in answers}) >= LEAST_DIFFERENT_TOKENS else None
    return Readings(
        sidecar=first.sidecar,
        first=_warmth(first, fresh),
        paused=_warmth(samples[Probe.PAUSE][0], fresh) if samples[Probe.PAUSE] else None,
        dns=_times(sample.dns_ms for sample in opened),
        connect=_times(sample.connect_ms for sample in opened),
        tls=_times(sample.tls_ms for sample in opened),
        kept=bool(kept),
        ttfb=_times(sample.ttfb_ms for sample in kept or fresh or [first]),
        total=middle(_totals(kept or fresh or [first])),
        fresh=middle(_totals(fresh)),
        opening=shift(_totals(fresh), _totals(kept)),
        http2_total=middle(_totals(samples[Probe.HTTP2_KEPT])),
        http2=shift(_totals(kept), _totals(samples[Probe.HTTP2_KEPT])),
        at_once=at_once,
        burst=_burst(taken, Probe.BURST_FRESH, Probe.BURST_KEPT),
        http2_burst=_burst(taken, Probe.HTTP2_BURST_FRESH, Probe.HTTP2_BURST_KEPT),
        http2_at_once=shift(_totals(samples[Probe.BURST_FRESH]), _totals(samples[Probe.HTTP2_BURST_FRESH])),
        load=_load(taken),
        prompt=broken([(float(tokens), height) for tokens, height in points]),
        prompt_points=points,
        temperatures=warmed,
        hotter=_hotter(taken),
        per_token=line.slope if line is not None else None,
        first_token=_times(sample.first_token_ms for sample in samples[Probe.STREAM]),
        # Several tokens may come in one read, so single gaps say little; their mean over a stream does.
        between_tokens=middle([fmean(one.gaps_ms) for one in samples[Probe.STREAM] if one.gaps_ms]),
        streamed=middle(_totals(samples[Probe.STREAM])),
        lost=middle(taken.lost_ms),
        failures=tuple(sorted(taken.failures.items())),
        gaps=tuple(_gaps(taken, opened, tls=tls, told=line is not None)),
    )


def _warmth(sample: Sample, fresh: Sequence[Sample]) -> Warmth:
    return Warmth(sample.total_ms, shift([sample.total_ms], _totals(fresh)))


def _burst(taken: Taken, fresh: Probe, kept: Probe) -> Burst:
    return Burst(middle(_totals(taken.samples[fresh])), middle(_totals(taken.samples[kept])))


def _warmed(taken: Taken) -> tuple[Warmed, ...]:
    found = []
    for temperature in sorted(set(taken.temperatures)):
        at = _at(taken, temperature)
        tokens, total = middle([one.output_tokens for one in at]), middle(_totals(at))
        if tokens is not None and total is not None:
            found.append(Warmed(temperature, tokens, total))
    return tuple(found)


def _hotter(taken: Taken) -> Estimate | None:
    if len(set(taken.temperatures)) < 2:
        return None
    low, high = (_at(taken, end(taken.temperatures)) for end in (min, max))
    return shift(_totals(high), _totals(low))


def _at(taken: Taken, temperature: float) -> list[Sample]:
    answered = zip(taken.temperatures, taken.samples[Probe.TEMPERATURE], strict=True)
    return [sample for one, sample in answered if one == temperature]


def _load(taken: Taken) -> Estimate | None:
    """Return what calls at once wait for; all that this program itself computed for them is taken off."""
    found = shift(_totals(taken.samples[Probe.BURST_KEPT]), _totals(taken.samples[Probe.KEPT]))
    return None if found is None else found.less(taken.own_ms.get(Probe.BURST_KEPT, 0.0))


def _gaps(taken: Taken, opened: Sequence[Sample], *, tls: bool, told: bool) -> Iterable[tuple[str, Gap]]:
    """Yield the name and the reason of all that could not be measured."""
    if all(sample.dns_ms is None for sample in opened):
        yield "DNS", Gap.NO_DNS
    if not tls:
        yield "TLS", Gap.NO_TLS
    for probe, gap in taken.gaps.items():
        yield probe.value, gap
    answers = taken.samples[Probe.TEMPERATURE]
    if answers and not told:
        name = "time of each token of the answer"
        if not any(sample.output_tokens for sample in answers):
            yield name, Gap.NO_USAGE
        elif len(answers) < LEAST_DIFFERENT_TOKENS:
            yield name, Gap.BUDGET
        else:
            yield name, Gap.SAME_LENGTH
    if answers and all(sample.cut for sample in answers):
        yield "length of answers by temperature", Gap.CUT


def _totals(samples: Iterable[Sample]) -> list[float]:
    return [sample.total_ms for sample in samples]


def _times(found: Iterable[float | None]) -> Estimate | None:
    return middle([time for time in found if time is not None])
