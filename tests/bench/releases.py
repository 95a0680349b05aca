"""The rows of releases: how often chance rolls one back, and how soon a worse version is found."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

from control_plane.releases.analysis import Outcome
from ext_proc.assignment import point
from tests.bench.measure import Effort, Row
from tests.unit.control_plane.releases.simulated import Behaviour, Played, play

GOOD = Behaviour()
ENOUGH = 2000
QUICK_RUNS, RUNS = 100, 400
CALLERS = 100_000


def measure_releases(effort: Effort) -> list[Row]:
    """Play releases by a seeded draw."""
    runs = RUNS if effort == Effort.full() else QUICK_RUNS
    return [
        _alike("log-normal, spread 0.5", GOOD, runs),
        _alike("heavy tail, spread 1.0, 2 % errors", replace(GOOD, spread=1.0, error_rate=0.02), runs),
        _worse("errors 1 % to 3 %", GOOD, replace(GOOD, error_rate=0.03), runs),
        *(
            _worse(f"p95 +30 %, spread {spread}", replace(GOOD, spread=spread), _slower(spread), runs)
            for spread in (0.3, 0.5, 0.8)
        ),
        _disaster(runs),
        _shares(),
    ]


def _slower(spread: float) -> Behaviour:
    return replace(GOOD, spread=spread, median_ms=GOOD.median_ms * 1.3)


def _failed(played: Sequence[Played]) -> list[Played]:
    return [one for one in played if one.verdict.outcome is Outcome.FAIL]


def _alike(name: str, same: Behaviour, runs: int) -> Row:
    rng = random.Random(1)
    share = len(_failed([play(same, same, rng) for _ in range(runs)])) / runs
    return Row(f"release, no difference: {name}", "rolled back ≤ 5 %", f"{share:.1%}", share <= 0.05)


def _worse(name: str, old: Behaviour, new: Behaviour, runs: int) -> Row:
    rng = random.Random(2)
    found = _failed([play(old, new, rng, at_most=ENOUGH, bake=ENOUGH) for _ in range(runs)])
    share = len(found) / runs
    middle = sorted(one.new_requests for one in found)[len(found) // 2] if found else 0
    measured = f"{share:.1%}, half of them by {middle}"
    return Row(f"release, worse: {name}", f"≥ 95 % by {ENOUGH} requests", measured, share >= 0.95)


def _disaster(runs: int) -> Row:
    rng = random.Random(3)
    bad = replace(GOOD, error_rate=0.5)
    share = len(_failed([play(GOOD, bad, rng, at_most=30) for _ in range(runs)])) / runs
    return Row("release, half of the answers fail", "by 30 requests", f"{share:.1%}", share >= 0.95)


def _shares() -> Row:
    places = [point("release:r", f"consumer:{number}") for number in range(CALLERS)]
    off = max(
        abs(sum(place < share for place in places) / CALLERS - share) for share in (0.01, 0.05, 0.25, 0.5)
    )
    return Row("release, shares of 100,000 callers", "within 0.5 %", f"{off:.2%} off at most", off <= 0.005)
