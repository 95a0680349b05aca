"""What caches did and keep, as lines for a terminal (pure). Trusts no answer's form."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from rich.console import RenderableType
from rich.text import Text

from control_plane.cli.amounts import grouped, number, share, size, span
from control_plane.cli.columns import cells, moment
from control_plane.cli.printing import table
from control_plane.cli.text import printable

Fields = Mapping[str, Any]

_SEMANTIC: Final = (
    ("served", "served"),
    ("explored", "explored"),
    ("vetoed", "vetoed"),
    ("wouldServe", "would serve"),
    ("wouldBeWrong", "would be wrong"),
)
_SHOWN: Final = ("model", "version", "tenant", "tier")


def statistics_lines(report: Fields) -> Iterator[RenderableType]:
    """Yield what all caches did together, then each sidecar's part."""
    total = _fields(report.get("total"))
    yield headline(total)
    if saved := saved_line(total):
        yield saved
    if tiers := _items(total.get("tiers")):
        yield ""
        yield table(*cells("tiers of caches", tiers))
    more = [line for line in (_ages(total), _semantic(total)) if line]
    if more:
        yield ""
        yield from more
    if sidecars := _items(report.get("sidecars")):
        yield ""
        yield table(*cells("caches", sidecars))


def headline(total: Fields) -> str:
    """Return the hit ratio and what it is of."""
    hits, misses = number(total.get("hits")), number(total.get("misses"))
    if not hits + misses:
        return "no cacheable question yet"
    ratio = share(total.get("hitRatio"))
    return f"hit ratio {ratio}: {grouped(hits)} of {grouped(hits + misses)} questions"


def saved_line(total: Fields) -> str:
    """Return what hits saved, "" while that is nothing. Money is told where a Model has prices."""
    saved = _fields(total.get("saved"))
    prompt, completion = number(saved.get("promptTokens")), number(saved.get("completionTokens"))
    cost, waited = number(saved.get("cost")), number(saved.get("seconds"))
    if not (prompt or completion or cost or waited):
        return ""
    tokens = f"{grouped(prompt + completion)} tokens ({grouped(prompt)} in, {grouped(completion)} out)"
    money = f", {cost:,.4f} of cost" if cost else ""
    return f"saved {tokens}{money}, {span(waited)} of waiting"


def entry_lines(entry: Fields) -> Iterator[RenderableType]:
    """Yield what is known of one answer, and the answer."""
    yield Text(str(entry.get("key")), style="cyan")
    for name in _SHOWN:
        yield f"  {name:<9}{printable(str(entry.get(name) or '–'))}"
    state = "stale" if entry.get("stale") else "fresh"
    age, left = span(entry.get("ageSeconds")), span(entry.get("expiresInSeconds"))
    yield f"  {'age':<9}{age}, {state}, ends in {left}"
    yield f"  {'size':<9}{size(entry.get('bytes'))}, {printable(str(entry.get('contentType') or ''))}"
    yield f"  {'hits':<9}{grouped(entry.get('hits'))}"
    names = entry.get("sidecars")
    sidecars = [str(name) for name in names] if isinstance(names, list) else []
    yield f"  {'kept by':<9}{printable(', '.join(sidecars))}"
    yield ""
    body = entry.get("body")
    if body is None:
        yield "the answer is too large to be shown"
    elif isinstance(body, str):
        yield from (printable(line) for line in body.splitlines())
    else:
        shown = json.dumps(body, ensure_ascii=False, indent=2)
        yield from (printable(line) for line in shown.splitlines())


def purged_line(purged: Fields) -> str:
    """Return what is void now."""
    prefix = purged.get("keyPrefix")
    parts = (
        ("Model ", purged.get("model")),
        ("version ", purged.get("version")),
        ("", purged.get("tenant")),
        ("key ", f"{prefix}…" if isinstance(prefix, str) and len(prefix) < 64 else prefix),
    )
    named = ", ".join(f"{name}{printable(str(value))}" for name, value in parts if value is not None)
    what = f"every answer of {named}" if named else "every answer"
    return (
        f"revision {purged.get('revision')} voids {what} that was asked for until {moment(purged.get('at'))}"
    )


def _ages(total: Fields) -> str:
    ages = _items(total.get("hitAges"))
    words: list[str] = []
    last: Any = None
    for age in ages:
        bound = age.get("upToSeconds")
        if number(age.get("hits")):
            limit = f"≤ {_bound(bound)}" if bound is not None else f"> {_bound(last)}"
            words.append(f"{limit} {grouped(age.get('hits'))}")
        last = bound
    return f"age of hits: {', '.join(words)}" if words else ""


def _bound(seconds: Any) -> str:
    found = number(seconds)
    for unit_s, name in ((86_400, "d"), (3_600, "h"), (60, "m")):
        if found >= unit_s and not found % unit_s:
            return f"{found / unit_s:.0f}{name}"
    return f"{found:.0f}s"


def _semantic(total: Fields) -> str:
    found = _fields(total.get("semantic"))
    words = [f"{grouped(found[name])} {told}" for name, told in _SEMANTIC if number(found.get(name))]
    return f"similar questions: {', '.join(words)}" if words else ""


def _fields(value: Any) -> Fields:
    return value if isinstance(value, Mapping) else {}


def _items(value: Any) -> list[Fields]:
    return [one for one in value if isinstance(one, Mapping)] if isinstance(value, list) else []
