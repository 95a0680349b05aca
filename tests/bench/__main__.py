"""`python -m tests.bench [--quick] [--only ROW]…`: measure, print the table, keep it as JSON in `.bench/`."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tests.bench import rivals
from tests.bench.api import measure_api
from tests.bench.batch import measure_batches
from tests.bench.cache import measure_cache
from tests.bench.ceiling import measure_ceiling
from tests.bench.fleet import measure_fleet
from tests.bench.lab import Lab
from tests.bench.limits import measure_limits
from tests.bench.load import LoadFailed, ensure_wrk
from tests.bench.measure import Bench, Effort, Row
from tests.bench.pacing import measure_pacing
from tests.bench.releases import measure_releases
from tests.bench.semantic import measure_semantic
from tests.bench.sharing import measure_sharing
from tests.bench.sizing import measure_sizing
from tests.bench.webhook import measure_webhook

SIDECAR_ROWS = ("throughput", "latency", "stream", "body", "memory", "rivals")
OTHER_ROWS: dict[str, Callable[[Effort, Path], list[Row]]] = {
    "batch": measure_batches,
    "api": measure_api,
    "fleet": measure_fleet,
    "cache": measure_cache,
    "sharing": measure_sharing,
    "semantic": lambda effort, _: measure_semantic(effort),
    "limits": measure_limits,
    "pacing": measure_pacing,
    "releases": lambda effort, _: measure_releases(effort),
    "sizing": measure_sizing,
    "webhook": measure_webhook,
    "ceiling": measure_ceiling,
}
ROWS = (*SIDECAR_ROWS, *OTHER_ROWS)
MARKS = {True: "[green]yes[/]", False: "[red]NO[/]", None: ""}


def main() -> int:
    """Run the bench. The exit status is 1 when a promise is not kept."""
    options = _options()
    console = Console(width=140 if not sys.stdout.isatty() else None)
    try:
        ensure_wrk()
        if options.rivals:
            rivals.install()
    except LoadFailed as error:
        print(error, file=sys.stderr)
        return 1
    effort = Effort.quick() if options.quick else Effort.full()
    chosen = options.only or ROWS
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="ob-") as temporary:
        folder = Path(temporary)
        if not set(SIDECAR_ROWS).isdisjoint(chosen):
            rows += _sidecar(folder, chosen, effort, console)
        for name, measure in OTHER_ROWS.items():
            if name in chosen:
                console.print(f"[dim]measuring {name} …[/]")
                rows += measure(effort, _made(folder / name))
    console.print(_table(rows))
    _keep(rows, options.quick)
    return 1 if any(row.passed is False for row in rows) else 0


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


def _sidecar(folder: Path, chosen: Sequence[str], effort: Effort, console: Console) -> list[Row]:
    rows: list[Row] = []
    with Lab(folder, with_rivals="rivals" in chosen) as lab:
        for name, measure in Bench(lab, effort).rows().items():
            if name in chosen:
                console.print(f"[dim]measuring {name} …[/]")
                rows += measure()
    return rows


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="at most two minutes, looser figures")
    parser.add_argument("--only", action="append", choices=ROWS, help="measure only this (repeatable)")
    parser.add_argument(
        "--rivals",
        action="store_true",
        default=os.environ.get("RIVALS") == "1",
        help="install LiteLLM and Portkey first (also: RIVALS=1)",
    )
    return parser.parse_args()


def _table(rows: list[Row]) -> Table:
    table = Table(title=f"Outrigger bench, {os.cpu_count()} cores, {platform.machine()}")
    for column in ("what", "promised", "measured", "kept"):
        table.add_column(column)
    for row in rows:
        table.add_row(row.name, row.target, row.measured, MARKS[row.passed])
    return table


def _keep(rows: list[Row], quick: bool) -> None:
    folder = Path(".bench")
    folder.mkdir(exist_ok=True)
    now = datetime.now(UTC)
    document = {
        "at": now.isoformat(),
        "quick": quick,
        "cores": os.cpu_count(),
        "rows": [asdict(r) for r in rows],
    }
    path = folder / f"{now:%Y%m%dT%H%M%SZ}.json"
    path.write_text(json.dumps(document, indent=1, ensure_ascii=False), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
