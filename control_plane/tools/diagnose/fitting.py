"""A straight or once broken line through points, by least squares, with 95 % intervals (pure).

The knee is found by trying: for each place it could have, the best broken line is linear algebra; the place
with the least squared error wins, and its interval is every place that fits nearly as well (the profile
likelihood). A knee is believed only if the break explains more than chance would (an F test with two more
parameters).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import Final

from control_plane.tools.diagnose.estimates import Estimate, student_t

Point = tuple[float, float]
PLACES_BETWEEN: Final = 12
_CHANCE: Final = 0.01
_OUTLIER: Final = 5.0  # robust standard deviations
_SAME: Final = 1e-9


@dataclass(frozen=True, slots=True)
class Curve:
    """A line: `start` at 0, `slope` per unit, and from `knee` on `slope_past` (None for a straight one)."""

    start: float
    slope: Estimate
    knee: Estimate | None = None
    slope_past: Estimate | None = None

    def at(self, place: float) -> float:
        """Return the height at `place`."""
        past = max(0.0, place - self.knee.value) if self.knee is not None else 0.0
        further = (self.slope_past.value - self.slope.value) * past if self.slope_past is not None else 0.0
        return self.start + self.slope.value * place + further


@dataclass(frozen=True, slots=True)
class _Solution:
    weights: tuple[float, ...]
    inverse: tuple[tuple[float, ...], ...]
    squares: float


def straight(points: Sequence[Point]) -> Curve | None:
    """Return the line through `points`; None for fewer than three, or all at one place."""
    return _trimmed(points, _straight)


def broken(points: Sequence[Point]) -> Curve | None:
    """Return the broken line through `points`, or the straight one if there is no knee to be seen."""
    return _trimmed(points, _broken)


def _trimmed(points: Sequence[Point], draw: Callable[[Sequence[Point]], Curve | None]) -> Curve | None:
    """Draw, leave out what lies far off, draw again."""
    first = draw(points)
    if first is None:
        return None
    off = [abs(height - first.at(place)) for place, height in points]
    spread = 1.4826 * median(off)
    kept = [point for point, miss in zip(points, off, strict=True) if miss <= _OUTLIER * spread + _SAME]
    if len(kept) == len(points) or len(kept) < max(4, len(points) * 3 // 4):
        return first
    return draw(kept) or first


def _straight(points: Sequence[Point]) -> Curve | None:
    solution = _solve([(1.0, place) for place, _ in points], [height for _, height in points])
    if solution is None or len(points) < 3:
        return None
    return Curve(solution.weights[0], _weight(solution, (0.0, 1.0), len(points)))


def _broken(points: Sequence[Point]) -> Curve | None:
    line = _straight(points)
    places = sorted({place for place, _ in points})
    if line is None or len(places) < 4 or len(points) < 6:
        return line
    heights = [height for _, height in points]
    tried = [
        (knee, solution)
        for knee in _candidates(places)
        if (solution := _solve([(1.0, place, max(0.0, place - knee)) for place, _ in points], heights))
    ]
    if not tried:
        return line
    knee, best = min(tried, key=lambda one: one[1].squares)
    left = len(points) - 4
    unbroken = sum((height - line.at(place)) ** 2 for place, height in points)
    if not _explains(unbroken, best.squares, left):
        return line
    near = best.squares * (1 + student_t(left) ** 2 / left) + _SAME
    fits = [number for number, (_, solution) in enumerate(tried) if solution.squares <= near]
    # The places beside them were tried and do not fit: the knee is somewhere in between.
    fitting = tried[max(0, fits[0] - 1) : fits[-1] + 2]
    count = len(points)
    return Curve(
        best.weights[0],
        _widest([_weight(one, (0.0, 1.0, 0.0), count) for _, one in fitting], best.weights[1]),
        Estimate(knee, fitting[0][0], fitting[-1][0], count),
        _widest([_weight(one, (0.0, 1.0, 1.0), count) for _, one in fitting], sum(best.weights[1:])),
    )


def _widest(slopes: Sequence[Estimate], value: float) -> Estimate:
    """Return `value` with an interval that also covers not knowing where the knee is."""
    return Estimate(value, min(one.low for one in slopes), max(one.high for one in slopes), slopes[0].n)


def _candidates(places: Sequence[float]) -> list[float]:
    """Return where a knee may be: between the second and the last place but one, or on them."""
    inner = places[1:-1]
    found = [
        low + (high - low) * step / PLACES_BETWEEN
        for low, high in pairwise(inner)
        for step in range(PLACES_BETWEEN)
    ]
    return [*found, inner[-1]]


def _explains(unbroken: float, squares: float, left: int) -> bool:
    """Return whether a break is more than chance; F with 2 and n degrees has a closed form."""
    if unbroken <= _SAME:
        return False
    if squares <= _SAME:
        return True
    ratio = (unbroken - squares) / 2 / (squares / left)
    critical: float = left / 2 * (_CHANCE ** (-2 / left) - 1)
    return ratio > critical


def _weight(solution: _Solution, picked: Sequence[float], count: int) -> Estimate:
    """Return the sum of the picked weights with its interval."""
    size = len(solution.weights)
    value = sum(pick * weight for pick, weight in zip(picked, solution.weights, strict=True))
    spread = sum(
        picked[row] * solution.inverse[row][column] * picked[column]
        for row in range(size)
        for column in range(size)
    )
    left = count - size
    if left < 1:
        return Estimate(value, -math.inf, math.inf, count)
    reach = student_t(left) * math.sqrt(max(0.0, spread * solution.squares / left))
    return Estimate(value, value - reach, value + reach, count)


def _solve(rows: Sequence[tuple[float, ...]], heights: Sequence[float]) -> _Solution | None:
    """Return the least-squares weights of `rows`; None when they do not decide them."""
    if not rows:
        return None
    size = len(rows[0])
    scale = [max(abs(row[column]) for row in rows) or 1.0 for column in range(size)]
    scaled = [tuple(value / unit for value, unit in zip(row, scale, strict=True)) for row in rows]
    gram = [[sum(row[one] * row[two] for row in scaled) for two in range(size)] for one in range(size)]
    inverse = _inverted(gram)
    if inverse is None:
        return None
    sums = [
        sum(row[column] * height for row, height in zip(scaled, heights, strict=True))
        for column in range(size)
    ]
    weights = [
        sum(inverse[row][column] * sums[column] for column in range(size)) / scale[row] for row in range(size)
    ]
    squares = sum(
        (height - sum(weight * value for weight, value in zip(weights, row, strict=True))) ** 2
        for row, height in zip(rows, heights, strict=True)
    )
    unscaled = tuple(
        tuple(inverse[row][column] / scale[row] / scale[column] for column in range(size))
        for row in range(size)
    )
    return _Solution(tuple(weights), unscaled, squares)


def _inverted(matrix: Sequence[Sequence[float]]) -> list[list[float]] | None:
    """Return the inverse by Gauss-Jordan with pivoting; None for a singular matrix."""
    size = len(matrix)
    rows = [[*row, *(float(place == number) for place in range(size))] for number, row in enumerate(matrix)]
    for column in range(size):
        pivot = max(range(column, size), key=lambda row: abs(rows[row][column]))
        if abs(rows[pivot][column]) < _SAME:
            return None
        rows[column], rows[pivot] = rows[pivot], rows[column]
        rows[column] = [value / rows[column][column] for value in rows[column]]
        for other in range(size):
            if other != column and (factor := rows[other][column]):
                pairs = zip(rows[other], rows[column], strict=True)
                rows[other] = [value - factor * one for value, one in pairs]
    return [row[size:] for row in rows]
