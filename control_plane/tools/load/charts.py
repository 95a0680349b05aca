"""Line charts as SVG (pure): panels above each other that share one x axis, made for pages of ours.

Colours are CSS variables (`--c0`, `--c1`, …, `--ink`, `--line`): a chart is readable in light and dark.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

WIDTH: Final = 760
PANEL_HEIGHT: Final = 170
LEFT: Final = 64
RIGHT: Final = 30
GAP: Final = 40
TOP: Final = 26
BOTTOM: Final = 44

Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Series:
    """One line. `band` is the lower and upper value at each point (its confidence); `dots` marks points."""

    name: str
    points: Sequence[Point]
    colour: int = 0
    dashed: bool = False
    dots: bool = False
    band: Sequence[Point] = ()


@dataclass(frozen=True, slots=True)
class Panel:
    """One y axis with its lines; it begins at 0 and ends at `top`, or where the lines do."""

    title: str
    series: Sequence[Series]
    unit: str = ""
    top: float | None = None


@dataclass(frozen=True, slots=True)
class Axis:
    """The x axis: `ticks` are (position, text)."""

    title: str
    ticks: Sequence[tuple[float, str]]


@dataclass(frozen=True, slots=True)
class Mark:
    """A vertical line over all panels, with a word at its top."""

    x: float
    text: str


def chart(label: str, panels: Sequence[Panel], axis: Axis, mark: Mark | None = None) -> str:
    """Return the SVG; `label` tells it to those who cannot see it."""
    height = TOP + len(panels) * (PANEL_HEIGHT + GAP) - GAP + BOTTOM
    xs = [x for panel in panels for series in panel.series for x, _ in series.points]
    xs += [x for x, _ in axis.ticks]
    low, high = (min(xs), max(xs)) if xs else (0.0, 1.0)
    frame = _Frame(low, high if high > low else low + 1)
    parts = [
        f'<svg class="chart" viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(label)}">',
        f"<title>{escape(label)}</title>",
    ]
    bottom = height - BOTTOM
    for number, panel in enumerate(panels):
        parts += _panel(panel, TOP + number * (PANEL_HEIGHT + GAP), frame)
    parts += _axis(axis, frame, bottom)
    if mark is not None:
        x = frame.x(mark.x)
        anchor = "end" if x > WIDTH * 0.7 else "start"
        shift = -6 if anchor == "end" else 6
        parts.append(f'<line class="mark" x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{bottom}"/>')
        parts.append(
            f'<text class="marked" x="{x + shift:.1f}" y="{TOP + 12}" text-anchor="{anchor}">'
            f"{escape(mark.text)}</text>"
        )
    return "\n".join([*parts, "</svg>"])


@dataclass(frozen=True, slots=True)
class _Frame:
    low: float
    high: float

    def x(self, value: float) -> float:
        return LEFT + (value - self.low) / (self.high - self.low) * (WIDTH - LEFT - RIGHT)


def _panel(panel: Panel, top: int, frame: _Frame) -> list[str]:
    values = [y for series in panel.series for _, y in series.points]
    values += [upper for series in panel.series for _, upper in series.band]
    ticks = nice_ticks(panel.top if panel.top is not None else max(values, default=0.0))
    scale = ticks[-1]

    def y(value: float) -> float:
        return top + PANEL_HEIGHT * (1 - min(value, scale) / scale)

    parts = [f'<text class="title" x="{LEFT}" y="{top - 9}">{escape(panel.title)}</text>']
    for tick in ticks:
        parts.append(
            f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y(tick):.1f}" y2="{y(tick):.1f}"/>'
        )
        text = f"{number_text(tick)}{panel.unit}"
        parts.append(
            f'<text class="tick" x="{LEFT - 8}" y="{y(tick) + 4:.1f}" text-anchor="end">{text}</text>'
        )
    for series in panel.series:
        parts += _series(series, frame, y)
    parts += _legend(panel, top)
    return parts


def _series(series: Series, frame: _Frame, y: Callable[[float], float]) -> list[str]:
    colour = f"var(--c{series.colour})"
    places = [(frame.x(x), y(value)) for x, value in series.points]
    parts = []
    if series.band and places:
        upper = [f"{x:.1f},{y(high):.1f}" for (x, _), (_, high) in zip(places, series.band, strict=True)]
        lower = [f"{x:.1f},{y(low):.1f}" for (x, _), (low, _) in zip(places, series.band, strict=True)]
        shape = " ".join([*upper, *reversed(lower)])
        parts.append(f'<polygon class="band" points="{shape}" fill="{colour}"/>')
    if places:
        line = " ".join(f"{x:.1f},{height:.1f}" for x, height in places)
        dash = ' stroke-dasharray="5 4"' if series.dashed else ""
        parts.append(f'<polyline class="line" points="{line}" stroke="{colour}"{dash}/>')
    if series.dots:
        for (x, height), (_, value) in zip(places, series.points, strict=True):
            parts.append(
                f'<circle cx="{x:.1f}" cy="{height:.1f}" r="4" fill="{colour}">'
                f"<title>{escape(series.name)}: {number_text(value)}</title></circle>"
            )
    return parts


def _legend(panel: Panel, top: int) -> list[str]:
    if len(panel.series) < 2:
        return []
    parts, x = [], float(WIDTH - RIGHT)
    for series in reversed(panel.series):
        parts.append(
            f'<text class="legend" x="{x:.0f}" y="{top - 9}" text-anchor="end">{escape(series.name)}</text>'
        )
        x -= 7.2 * len(series.name) + 6
        dash = ' stroke-dasharray="5 4"' if series.dashed else ""
        parts.append(
            f'<line class="line" x1="{x - 18:.0f}" x2="{x:.0f}" y1="{top - 13}" y2="{top - 13}" '
            f'stroke="var(--c{series.colour})"{dash}/>'
        )
        x -= 34
    return parts


def _axis(axis: Axis, frame: _Frame, bottom: int) -> list[str]:
    def centred(x: float, y: int, text: str) -> str:
        return f'<text class="tick" x="{x:.1f}" y="{y}" text-anchor="middle">{escape(text)}</text>'

    line = f'<line class="axis" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{bottom}" y2="{bottom}"/>'
    ticks = [centred(frame.x(place), bottom + 18, text) for place, text in axis.ticks]
    return [line, *ticks, centred((LEFT + WIDTH - RIGHT) / 2, bottom + 36, axis.title)]


def nice_ticks(top: float, most: int = 5) -> list[float]:
    """Return evenly spaced round numbers from 0 to at least `top`."""
    if top <= 0 or not math.isfinite(top):
        return [0.0, 1.0]
    raw = top / (most - 1)
    unit = 10.0 ** math.floor(math.log10(raw))
    step = next(factor * unit for factor in (1, 2, 2.5, 5, 10) if factor * unit >= raw * (1 - 1e-9))
    return [step * number for number in range(math.ceil(top / step - 1e-9) + 1)]


def number_text(value: float) -> str:
    """Return a number as short as it can be read: `0.25`, `12`, `3.4k`."""
    if abs(value) >= 10_000:
        return f"{value / 1000:.4g}k"
    return f"{value:.4g}" if abs(value) < 1000 else f"{value:.0f}"
