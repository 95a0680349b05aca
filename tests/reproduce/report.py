"""The report: `docs/reproduction.md` and what the terminal shows (pure, but for writing)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.reproduce.measured import Figures, Measure, Promise, Row, Table, figure
from tests.reproduce.plots import bars, ratio_text
from tests.reproduce.trials import Article

_HEAD: Final = """\
# Three articles, measured again

Three articles tell what their authors gained by making calls in another way. `make reproduce` measures
their tables again and writes this page: each row of theirs beside ours, both in relation to the naive row
of their own table. Absolute figures belong to a machine and a network, ratios carry over.

{summary}

## How

- The provider is the [simulated one](provider.md), as far away and as slow as the article says (below
  each title). What a new connection costs is simulated, too; the bytes are not encrypted.
- Callers wait for their answers and ask again. They are as many as the article's own figures tell:
  throughput × latency.
- Every answer is compared with what the provider says to that question: of {asked:,} conversations
  {wrong:,} got an answer that was not their own.
- *Everything on* is caching, coalescing, retries and the batch mode that fits the table. The application
  is the asynchronous client with another base URL.
- Direct rows that wait more than they compute are measured at the same time, rows through the sidecar
  alone.
- Fewer calls are made than in the articles: the column *asked* tells how many conversations.

Measured on {when} on {cores} cores{quick}; their load average before it was {busy:.1f}.
"""
_TAIL: Final = """\
## What is not measured again

- Cold starts: the mesh does not warm providers up yet. `outrigger diagnose` measures what they cost.
- Hit rates of 40 % and 60 % and what they save belong to the traffic, not to the client.
- The sweep of batch sizes: `outrigger tune` makes it on your own traffic.
- A browser's cache of chunks, and the memory of clients.

## Where the articles are wrong

- The chat API takes no list of conversations, only embeddings and completions take arrays. `batch: {mode:
  array}` is for servers that do; elsewhere `packed` asks several questions in one chat and checks whose
  answer is whose.
- Merged questions whose answers are divided at `A:` get mixed up as soon as a text has an `A:` of its
  own. Packed ones have random ids, and what is missing is asked again alone.
- Latency does not grow exponentially with tokens: reading and writing are both linear, reading with a
  knee.
"""


@dataclass(frozen=True, slots=True)
class Circumstances:
    """When and where it was measured. `busy` is the load average before the run; `quick` runs say so."""

    when: str
    cores: int
    busy: float
    quick: bool


def write(
    folder: Path,
    articles: Sequence[Article],
    tables: Mapping[str, Table],
    promises: Sequence[Promise],
    circumstances: Circumstances,
) -> Path:
    """Write the page and its pictures below `folder` and return the page's path."""
    (folder / "images").mkdir(parents=True, exist_ok=True)
    for key, table in tables.items():
        (folder / "images" / f"reproduce-{key}.svg").write_text(bars(table), encoding="utf-8")
    path = folder / "reproduction.md"
    path.write_text(page(articles, tables, promises, circumstances), encoding="utf-8")
    return path


def page(
    articles: Sequence[Article],
    tables: Mapping[str, Table],
    promises: Sequence[Promise],
    circumstances: Circumstances,
) -> str:
    """Return the page in Markdown."""
    rows = [row for table in tables.values() for row in table.rows]
    head = _HEAD.format(
        summary=_summary(promises),
        asked=sum(row.asked for row in rows),
        wrong=sum(row.wrong for row in rows),
        when=circumstances.when,
        cores=circumstances.cores,
        busy=circumstances.busy,
        quick=", a quick run with few calls" if circumstances.quick else "",
    )
    sections = [head]
    for article in articles:
        sections.append(f"## {article.title}\n\n{article.about}\n")
        sections += [_section(tables[trial.key]) for trial in article.trials if trial.key in tables]
    return "\n".join([*sections, _TAIL])


def _summary(promises: Sequence[Promise]) -> str:
    lines = ["| promised | measured | kept |", "|---|---|---|"]
    lines += [f"| {one.text} | {one.measured} | {'yes' if one.kept else '**no**'} |" for one in promises]
    return "\n".join(lines)


def _section(table: Table) -> str:
    parts = [
        f"### {table.title}",
        table.conditions,
        markdown(table),
        f"![{table.title}: ratios](images/reproduce-{table.key}.svg)",
        *([table.notes] if table.notes else []),
    ]
    return "\n\n".join(parts) + "\n"


def markdown(table: Table) -> str:
    """Return the table: ratios of theirs and ours, then the figures themselves."""
    with_ratio = [place for place, measure in enumerate(table.measures) if not measure.plain]
    heads = ["row"]
    for place in with_ratio:
        heads += [f"{table.measures[place].name}, theirs", "ours"]
    lines = [_line([*heads, "their figures", "our figures", "asked"]), "|---" * (len(heads) + 3) + "|"]
    for row in table.rows:
        cells = [f"**{row.name}**" if row.sidecar else row.name]
        for place in with_ratio:
            cells += map(ratio_text, table.ratios(row, place))
        cells += [absolute(table.measures, row.theirs), absolute(table.measures, row.ours), _asked(row)]
        lines.append(_line(cells))
    return "\n".join(lines)


def absolute(measures: Sequence[Measure], figures: Figures) -> str:
    """Return a row's own figures: `9, 2.2 s, 5.1 s`; `–` for none."""
    shown = [
        f"{value:,.{_digits(value)}f}{' ' if measure.unit else ''}{measure.unit}"
        for place, measure in enumerate(measures)
        if (value := figure(figures, place)) is not None
    ]
    return ", ".join(shown) or "–"


def _digits(value: float) -> int:
    return 0 if value >= 100 or value == int(value) else 1 if value >= 10 else 2


def _asked(row: Row) -> str:
    if not row.asked:
        return "–"
    wrong = f", **{row.wrong} wrong**" if row.wrong else ""
    failed = f", {row.errors * 100:.2g} % failed" if row.errors else ""
    return f"{row.asked:,}{wrong}{failed}"


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"
