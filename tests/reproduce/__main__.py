"""`python -m tests.reproduce [--quick] [--only TABLE]…`: measure the articles' tables and write the page."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console

from tests.reproduce import first, report, second, third
from tests.reproduce.lab import Ports, running
from tests.reproduce.measured import Promise, Row, Table
from tests.reproduce.trials import Effort, Trial

ARTICLES = (first.ARTICLE, second.ARTICLE, third.ARTICLE)
TRIALS = tuple(trial for article in ARTICLES for trial in article.trials)
DOCS = Path("docs")
# A quick run must not replace the page of a whole one.
QUICK = Path(".bench") / "reproduction"


def main() -> int:
    """Measure, print, write. The exit status is 1 when a promise is not kept or an answer is not its own."""
    options = _options()
    console = Console(width=150 if not sys.stdout.isatty() else None, highlight=False)
    effort = Effort.quick() if options.quick else Effort.full()
    chosen = [trial for trial in TRIALS if not options.only or trial.key in options.only]
    folder = options.out or (QUICK if options.quick or options.only else DOCS)
    began, busy = time.monotonic(), os.getloadavg()[0]
    with tempfile.TemporaryDirectory(prefix="or-") as name:
        providers = list({trial.provider.name: trial.provider for trial in chosen}.values())
        with running(providers, _documents(chosen), Path(name)) as ports:
            console.print(f"measuring {len(chosen)} tables …")
            tables = asyncio.run(_measure(chosen, ports, effort, console))
    promises = [promise for trial in chosen for promise in trial.promises(tables[trial.key])]
    now = datetime.now(UTC)
    circumstances = report.Circumstances(f"{now:%Y-%m-%d}", os.cpu_count() or 1, busy, options.quick)
    page = report.write(folder, ARTICLES, tables, promises, circumstances)
    wrong = sum(row.wrong for table in tables.values() for row in table.rows)
    _tell(console, promises, wrong)
    console.print(f"{page} written, after {time.monotonic() - began:.0f} s")
    return 1 if wrong or not all(promise.kept for promise in promises) else 0


async def _measure(
    trials: Sequence[Trial], ports: Ports, effort: Effort, console: Console
) -> dict[str, Table]:
    """Return the tables by their trials' keys."""
    patient = [trial for trial in trials if trial.patient]
    if patient:
        console.print(f"the direct rows of {', '.join(trial.key for trial in patient)} …")
    found = await asyncio.gather(*(trial.direct(ports, effort) for trial in patient))
    direct = {trial.key: rows for trial, rows in zip(patient, found, strict=True)}
    tables: dict[str, Table] = {}
    for trial in trials:
        console.print(f"{trial.title} …")
        rows: list[Row] = direct.get(trial.key) or await trial.direct(ports, effort)
        tables[trial.key] = trial.table([*rows, *await trial.through(ports, effort)])
        _show(console, tables[trial.key])
    return tables


def _documents(trials: Sequence[Trial]) -> list[str]:
    """Return the documents of these trials; those of one provider share its Backend."""
    return list(dict.fromkeys(document for trial in trials for document in trial.documents))


def _show(console: Console, table: Table) -> None:
    console.print(f"\n[bold]{table.title}[/]")
    console.print(report.markdown(table), markup=False, soft_wrap=True)


def _tell(console: Console, promises: Sequence[Promise], wrong: int) -> None:
    console.print()
    for promise in promises:
        mark = "[green]kept[/]" if promise.kept else "[red]NOT KEPT[/]"
        console.print(f"{mark}  {promise.text}: {promise.measured}")
    if wrong:
        console.print(f"[red]{wrong} answers were not their question's[/]")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.reproduce", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="at most 90 seconds, few calls")
    parser.add_argument(
        "--only", action="append", choices=[trial.key for trial in TRIALS], help="one table (repeatable)"
    )
    parser.add_argument(
        "--out", type=Path, help=f"where the page goes (else {DOCS}, of a part or a quick run {QUICK})"
    )
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
