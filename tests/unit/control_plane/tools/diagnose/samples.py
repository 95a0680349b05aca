"""Samples made by hand, for the tests of what is read from them."""

from control_plane.tools.diagnose.probes import Probe
from control_plane.tools.diagnose.sample import Sample
from control_plane.tools.diagnose.taken import Taken


def kept(total_ms: float, **more: object) -> Sample:
    """Return a call on a connection that was there."""
    return Sample(ttfb_ms=total_ms - 1, total_ms=total_ms, **more)  # type: ignore[arg-type]


def fresh(total_ms: float, **more: object) -> Sample:
    """Return a call that opened its connection."""
    return Sample(ttfb_ms=total_ms - 1, total_ms=total_ms, connect_ms=2.0, **more)  # type: ignore[arg-type]


def everything() -> Taken:
    """Return what a far provider would give: cold at first, slow to connect, with a knee at 1,000 tokens."""
    taken = Taken(failures={"429": 2}, lost_ms=[1000.0, 1100.0])
    samples = taken.samples
    samples[Probe.FIRST] = [fresh(2300, dns_ms=3.0, tls_ms=60.0)]
    samples[Probe.FRESH] = [fresh(250 + n, dns_ms=3.0 + n, tls_ms=60.0 + n) for n in range(8)]
    samples[Probe.KEPT] = [kept(130 + n) for n in range(8)]
    samples[Probe.PAUSE] = [fresh(253)]
    samples[Probe.HTTP2_FRESH] = [fresh(255)]
    samples[Probe.HTTP2_KEPT] = [kept(130 + n) for n in range(6)]
    samples[Probe.BURST_FRESH] = [fresh(400 + n) for n in range(8)]
    samples[Probe.BURST_KEPT] = [kept(300 + n) for n in range(8)]
    samples[Probe.HTTP2_BURST_FRESH] = [fresh(280 + n) for n in range(8)]
    samples[Probe.HTTP2_BURST_KEPT] = [kept(300 + n) for n in range(8)]
    samples[Probe.PROMPT] = [
        kept(130 + 0.02 * min(size, 1000) + 0.1 * max(0, size - 1000) + n, prompt_tokens=size)
        for size in (80, 320, 640, 1000, 1500, 2000, 3000, 4000)
        for n in (0, 1, 0.5)
    ]
    taken.temperatures += [0.2, 0.2, 0.2, 0.2, 1.0, 1.0, 1.0, 1.0]
    samples[Probe.TEMPERATURE] = [
        kept(130 + 12.5 * tokens, output_tokens=tokens) for tokens in (40, 41, 42, 43, 90, 92, 95, 99)
    ]
    samples[Probe.STREAM] = [kept(700, first_token_ms=140.0, gaps_ms=(12.0, 13.0, 12.5)) for _ in range(3)]
    taken.own_ms[Probe.BURST_KEPT] = 5.0
    return taken
