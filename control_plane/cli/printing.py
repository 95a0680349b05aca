"""Where results go: stdout holds the result alone, stderr what is said about it.

Wide tables fold on a terminal and stay whole elsewhere, so that `| grep` and `| awk` see every line.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterable
from typing import Any, Final

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from control_plane.cli.client import Answer
from control_plane.cli.options import Output
from control_plane.cli.streams import for_programs
from control_plane.cli.text import printable

UNFOLDED: Final = 100_000
# Columns that are never folded, beside the first: half a time is hard to read.
WHOLE: Final = frozenset({"AT", "CHANGED", "CREATED", "EXPIRES", "FROM", "REVOKED", "REVISION"})
STYLES: Final = {
    "in force": "green",
    "connected": "green",
    "accepted": "green",
    "waiting": "yellow",
    "disconnected": "dim",
    "refused": "bold red",
    "halted": "bold red",
    "ok": "green",
    "–": "dim",
}
"""How a cell that holds just this word looks."""


def console() -> Console:
    """Return a console on stdout."""
    plain = Console()
    return plain if plain.is_terminal else Console(width=UNFOLDED, color_system=None)


def show(*lines: RenderableType) -> None:
    """Print to stdout, as they are, text or tables."""
    out = console()
    with out.capture() if not out.is_terminal else contextlib.nullcontext() as captured:
        for line in lines:
            out.print(line, markup=False, highlight=False, soft_wrap=isinstance(line, str | Text))
    if captured is not None:
        _put("\n".join(line.rstrip() for line in captured.get().splitlines()))


def say(*sentences: str) -> None:
    """Print sentences to stderr, one a line."""
    for sentence in sentences:
        print(printable(sentence), file=sys.stderr, flush=True)


def table(columns: Iterable[str], rows: Iterable[Iterable[str]]) -> Table:
    """Return a table: names in the first row, no frame, so that its lines can be copied."""
    made = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for number, name in enumerate(columns):
        made.add_column(
            name, overflow="fold", no_wrap=number == 0 or name in WHOLE, style="cyan" if number == 0 else ""
        )
    for row in rows:
        cells = [printable(cell) if cell else "–" for cell in row]
        made.add_row(*(Text(cell, style=STYLES.get(cell, "")) for cell in cells))
    return made


def emit(answer: Answer, output: Output, text: Callable[[Answer], None]) -> None:
    """Print an answer as `output` says: as it came, as YAML, or by `text`."""
    if output is Output.TEXT:
        text(answer)
    elif output is Output.JSON:
        write(answer.text)
    elif answer.value is not None:
        write(as_yaml(answer.value))


def write(text: str) -> None:
    """Write a result for programs to stdout, in UTF-8; a missing end of line is added."""
    if text:
        for_programs()
        _put(text)


def as_yaml(value: Any) -> str:
    """Return a value as YAML, its fields in their own order."""
    from control_plane.webhook.scalars import write_yaml  # noqa: PLC0415 - only for those who ask for it

    return write_yaml(value)


def _put(text: str) -> None:
    if text:
        sys.stdout.write(text if text.endswith("\n") else f"{text}\n")
        sys.stdout.flush()
