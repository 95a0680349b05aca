"""What a change does, as lines for a terminal (pure): documents, and their fields one by one."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from rich.text import Text

from control_plane.cli.text import counted, printable

SIGNS: Final = {"create": "+", "update": "~", "delete": "-"}
_STYLES: Final = {"+": "green", "~": "yellow", "-": "red"}
_DONE: Final = {"create": "created", "update": "updated", "delete": "deleted", "unchanged": "unchanged"}

Change = Mapping[str, Any]
"""As the API gives it: `document`, `action`, and `fields` of `field`, `before`, `after`."""


def short(changes: Sequence[Change], most: int = 3) -> str:
    """Return the documents of a revision in one cell: `+Model/a ~Tier/b …`."""
    real = [change for change in changes if change.get("action") in SIGNS]
    words = [f"{SIGNS[change['action']]}{change.get('document')}" for change in real[:most]]
    if len(real) > most:
        words.append(f"and {len(real) - most} more")
    return " ".join(words)


def summary(changes: Sequence[Change]) -> str:
    """Return `1 created, 2 unchanged`, or `nothing changes`."""
    actions = [change.get("action") for change in changes]
    counts = [f"{actions.count(action)} {done}" for action, done in _DONE.items() if action in actions]
    return ", ".join(counts) or "nothing changes"


def differs(changes: Sequence[Change]) -> bool:
    """Return whether any document is created, updated or deleted."""
    return any(change.get("action") in SIGNS for change in changes)


def headlines(changes: Sequence[Change]) -> Iterator[Text]:
    """Yield one line for each document that changes."""
    for change in changes:
        if sign := SIGNS.get(str(change.get("action"))):
            fields = change.get("fields") or ()
            told = f"  ({counted(len(fields), 'field')})" if sign == "~" and fields else ""
            yield Text.assemble(_head(sign, change), (told, "dim"))


def unified(changes: Sequence[Change]) -> Iterator[Text]:
    """Yield the lines of a unified view: each changed document, below it each field, before and after."""
    for change in changes:
        if sign := SIGNS.get(str(change.get("action"))):
            yield _head(sign, change)
            for field in change.get("fields") or ():
                yield from _field(field)


def _head(sign: str, change: Change) -> Text:
    return Text(f"{sign} {printable(str(change.get('document')))}", style=f"bold {_STYLES[sign]}")


def _field(field: Mapping[str, Any]) -> Iterator[Text]:
    name = str(field.get("field"))
    for sign, value in (("-", field.get("before")), ("+", field.get("after"))):
        for path, leaf in _leaves(name, value):
            yield Text(f"  {sign} {printable(path)}: {written(leaf)}", style=_STYLES[sign])


def _leaves(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Yield every field below `path` by itself; lists of plain values stay whole, what is absent is none."""
    if isinstance(value, Mapping) and value:
        for name, item in value.items():
            yield from _leaves(f"{path}.{name}", item)
    elif isinstance(value, list) and any(isinstance(item, list | dict) for item in value):
        for number, item in enumerate(value):
            yield from _leaves(f"{path}[{number}]", item)
    elif value is not None:
        yield path, value


def written(value: Any) -> str:
    """Return a value as one line: text as it is, anything else as JSON."""
    text = value if isinstance(value, str) and value else json.dumps(value, ensure_ascii=False)
    return printable(text)
