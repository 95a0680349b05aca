"""A table's ratios as bars, theirs beside ours: SVG, readable in light and dark (pure)."""

from __future__ import annotations

import textwrap
from html import escape
from typing import Final

from tests.reproduce.measured import Row, Table

WIDTH: Final = 760
LABELS: Final = 312
RIGHT: Final = 70
BAR: Final = 13
ROW: Final = 42
HEAD: Final = 34
GAP: Final = 16
LEGEND: Final = 30
LETTERS: Final = 46
BOLD_LETTERS: Final = 40

# A picture of its own: the page's colours do not reach into it, the reader's preference does.
_STYLE: Final = """\
text{font:12px system-ui,"DejaVu Sans",sans-serif;fill:#334155}.title{font-weight:600;font-size:13px}
.value{font-size:11px}.own{font-weight:600}.theirs{fill:#94a3b8}.ours{fill:#0284c7}.sidecar{fill:#c2410c}
.one{stroke:#64748b;stroke-dasharray:3 3;opacity:.6}
@media(prefers-color-scheme:dark){text{fill:#e2e8f0}.theirs{fill:#64748b}.ours{fill:#38bdf8}.sidecar{fill:#fb923c}
.one{stroke:#94a3b8}}"""


def bars(table: Table) -> str:
    """Return the picture of a table: one panel a measure that has ratios."""
    places = [place for place, measure in enumerate(table.measures) if not measure.plain]
    panel = HEAD + ROW * len(table.rows) + GAP
    height = LEGEND + panel * len(places)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img">',
        f"<title>{escape(table.title)}: ratios to the naive row, theirs and ours</title>",
        f"<style>{_STYLE}</style>",
        *_legend(),
    ]
    for number, place in enumerate(places):
        parts += _panel(table, place, LEGEND + panel * number)
    return "\n".join([*parts, "</svg>\n"])


def _legend() -> list[str]:
    parts, x = [], 0
    for kind, text in (("theirs", "the article"), ("ours", "measured"), ("sidecar", "through the sidecar")):
        parts.append(f'<rect class="{kind}" x="{x}" y="6" width="12" height="12" rx="2"/>')
        parts.append(f'<text x="{x + 18}" y="16">{text}</text>')
        x += 40 + 6 * len(text)
    return parts


def _panel(table: Table, place: int, top: int) -> list[str]:
    measure = table.measures[place]
    ratios = {row.name: table.ratios(row, place) for row in table.rows}
    most = max((value for pair in ratios.values() for value in pair if value), default=1.0)
    scale = (WIDTH - LABELS - RIGHT) / most
    meaning = "times as fast as the naive row" if measure.faster else "in relation to the naive row"
    better = " (less is better)" if measure.less else ""
    bottom = top + HEAD + ROW * len(table.rows)
    one = LABELS + scale
    parts = [
        f'<text class="title" x="0" y="{top + 20}">{escape(measure.name)}, {meaning}{better}</text>',
        f'<line class="one" x1="{one:.1f}" x2="{one:.1f}" y1="{top + HEAD - 4}" y2="{bottom - 6}"/>',
    ]
    for number, row in enumerate(table.rows):
        parts += _row(row, ratios[row.name], top + HEAD + ROW * number, scale)
    return parts


def _row(row: Row, ratios: tuple[float | None, float | None], top: int, scale: float) -> list[str]:
    lines = textwrap.wrap(row.name, BOLD_LETTERS if row.sidecar else LETTERS)
    own = ' class="own"' if row.sidecar else ""
    first = top + 18 - 7 * (len(lines) - 1)
    parts = [
        f'<text x="0" y="{first + 14 * number}"{own}>{escape(line)}</text>'
        for number, line in enumerate(lines)
    ]
    shown = [
        (kind, ratio)
        for kind, ratio in zip(("theirs", "sidecar" if row.sidecar else "ours"), ratios, strict=True)
        if ratio is not None
    ]
    y = top + (ROW - 14 - (BAR + 1) * len(shown)) // 2 + 3
    for kind, ratio in shown:
        width = max(1.5, ratio * scale)
        parts.append(f'<rect class="{kind}" x="{LABELS}" y="{y}" width="{width:.1f}" height="{BAR}" rx="2"/>')
        parts.append(
            f'<text class="value" x="{LABELS + width + 6:.1f}" y="{y + 10}">{ratio_text(ratio)}</text>'
        )
        y += BAR + 1
    return parts


def ratio_text(ratio: float | None) -> str:
    """Return a ratio with as many digits as it deserves: `0.58 ×`, `7.2 ×`, `41 ×`; `–` for none."""
    if ratio is None:
        return "–"
    digits = 2 if ratio < 3 else 1 if ratio < 20 else 0
    return f"{ratio:.{digits}f} ×"
