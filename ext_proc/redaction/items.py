"""What is to be masked in a text of a request, so that a text that is JSON stays JSON (pure).

Such texts are the arguments of tool calls and most of their results. They are read as they mean (escapes,
texts within texts) and changed where they stand: nothing but the items changes, to the character.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from dataclasses import dataclass, replace
from typing import Final

import orjson

from ext_proc.contract.entities import Entity
from ext_proc.redaction.detectors import find

MAX_DEPTH: Final = 4
"""How deeply JSON texts within JSON texts are read as such."""
_BEGINS_JSON: Final = re.compile(r"\s*[{\[]")
_STRING: Final = re.compile(r'"((?:[^"\\]++|\\.)*+)"', re.DOTALL)
_ESCAPE: Final = re.compile(r"\\u[dD][89abAB]..\\u[dD][c-fC-F]..|\\u....|\\.")
# Escapes behind which something may be that cannot be seen in the text as it is written.
_HIDING: Final = re.compile(r"\\[ubf]")
_NUMBER: Final = re.compile(r"-?\d[\d.eE+-]*")


@dataclass(frozen=True, slots=True)
class Item:
    """`text[start:end]` says `value`; what takes its place gets `quote` on both sides."""

    entity: Entity
    start: int
    end: int
    value: str
    quote: str = ""


@dataclass(frozen=True, slots=True)
class _Part:
    """A part of a JSON text: a string without its quotation marks, or what is between two strings.

    It stands at `at` in what the text means and at `raw_at` in the text; `raw` is how a string is written.
    """

    at: int
    raw_at: int
    raw: str | None = None


def items_in(text: str, depth: int = 0) -> list[Item]:
    """Return the items of `text` in order, without overlaps.

    Words behind "bearer" and "basic" are taken for prose. A bare number of a JSON text becomes a string.
    """
    if depth < MAX_DEPTH and _BEGINS_JSON.match(text) is not None and _is_json(text):
        return _items_in_json(text, depth)
    return [
        Item(found.entity, found.start, found.end, text[found.start : found.end])
        for found in find(text, words=False)
    ]


def _is_json(text: str) -> bool:
    try:
        orjson.loads(text)
    except ValueError:
        return False
    return True


def _items_in_json(text: str, depth: int) -> list[Item]:
    if _HIDING.search(text) is None and not find(text, words=False):
        return []
    meaning, parts, items = _read(text, depth)
    starts = [part.at for part in parts]
    offsets: list[tuple[int, int]] = []
    read = -1
    for found in find(meaning, words=False):
        place = bisect_right(starts, found.start) - 1
        part = parts[place]
        # A finding ends with its string.
        limit = starts[place + 1] if place + 1 < len(parts) else len(meaning)
        if part.raw is not None:
            end = min(found.end, limit)
            if place != read:
                # Once a string, however much is found in it.
                offsets, read = _offsets(part.raw), place
            start_raw = part.raw_at + _raw(offsets, found.start - part.at)
            end_raw = part.raw_at + _raw(offsets, end - part.at)
            items.append(Item(found.entity, start_raw, end_raw, meaning[found.start : end]))
        elif (number := _number_at(meaning, part.at, found.start)) is not None:
            start, value = number
            at = part.raw_at + start - part.at
            items.append(Item(found.entity, at, at + len(value), value, '"'))
    items.sort(key=lambda item: item.start)
    # Several findings within one bare number are that number.
    return [item for place, item in enumerate(items) if not place or item.start >= items[place - 1].end]


def _read(text: str, depth: int) -> tuple[str, list[_Part], list[Item]]:
    """Return what `text` means, its parts, and the items of those strings that are JSON themselves."""
    pieces: list[str] = []
    parts: list[_Part] = []
    items: list[Item] = []
    length = raw_at = 0

    def add(piece: str, part: _Part) -> None:
        nonlocal length
        parts.append(part)
        pieces.append(piece)
        length += len(piece)

    for match in _STRING.finditer(text):
        start, end = match.span(1)
        add(text[raw_at:start], _Part(length, raw_at))
        raw = match[1]
        said = json.loads(match.group()) if "\\" in raw else raw
        if depth + 1 < MAX_DEPTH and _BEGINS_JSON.match(said) is not None and _is_json(said):
            offsets = _offsets(raw)
            items += [
                replace(
                    item,
                    start=start + _raw(offsets, item.start),
                    end=start + _raw(offsets, item.end),
                    quote=json.dumps(item.quote)[1:-1],
                )
                for item in _items_in_json(said, depth + 1)
            ]
            said = "\0" * len(said)
        add(said, _Part(length, start, raw))
        raw_at = end
    add(text[raw_at:], _Part(length, raw_at))
    return "".join(pieces), parts, items


def _offsets(raw: str) -> list[tuple[int, int]]:
    """Return, for each escape in a string, where the text goes on behind it: as said, and as written."""
    offsets = []
    longer = 0
    for match in _ESCAPE.finditer(raw):
        said = match.start() - longer
        longer += len(match.group()) - 1
        offsets.append((said + 1, match.end()))
    return offsets


def _raw(offsets: list[tuple[int, int]], said: int) -> int:
    """Return where position `said` is in the string as it is written."""
    place = bisect_right(offsets, (said, 1 << 62)) - 1
    if place < 0:
        return said
    after, raw = offsets[place]
    return raw + said - after


def _number_at(meaning: str, begin: int, at: int) -> tuple[int, str] | None:
    """Return the JSON number that position `at` is in, None when it is in none."""
    while at > begin and meaning[at - 1] in "0123456789.eE+-":
        at -= 1
    match = _NUMBER.match(meaning, at)
    return (at, match.group()) if match is not None else None
