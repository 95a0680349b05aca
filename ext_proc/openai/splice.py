"""One stream continued by another call's: what its readers have been told already is left out (pure).

It works where the second call says the same again, as a provider with a seed or without randomness does.
Where it does not, the readers' text would be nobody's: then the stream is not continued.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import orjson

from ext_proc.openai.documents import encode
from ext_proc.openai.sse import DONE, Event, EventParser, EventTooLarge, encode_event, is_done

# Said once, or the same each time; a second stream may give them other values (the id of a tool call).
_MARKS: Final = frozenset(("finish_reason", "id", "name", "role", "type"))
# Lists whose items are told apart by their `index`.
_INDEXED: Final = frozenset(("tool_calls",))

Path = tuple[str | int, ...]


class NotSpliceable(ValueError):
    """The second stream does not go on where the first one ended."""


@dataclass(slots=True)
class _Leaf:
    """One value of a choice: where it stands, and its name from the choice's index on."""

    holder: dict[str, Any]
    name: str
    value: Any
    path: Path

    @property
    def is_mark(self) -> bool:
        return self.name in _MARKS

    @property
    def is_text(self) -> bool:
        return isinstance(self.value, str) and not self.is_mark

    def forget(self) -> None:
        """Take the value out: it has been said."""
        if self.name == "finish_reason":
            self.holder[self.name] = None
        else:
            del self.holder[self.name]


class Splice:
    """Continues the stream of which `told` has been sent. Feed it the second stream from its beginning."""

    def __init__(self, told: bytes) -> None:
        """Read what was told: whole events.

        Raises:
            NotSpliceable: it ends in the middle of an event, or holds more than texts and tool calls.
        """
        self._parser = EventParser()
        # By path: the text that is still to be said again.
        self._owed: dict[Path, str] = {}
        self._marks: set[Path] = set()
        # Events without choices (filter results, usage), by the fields that they hold.
        self._others: Counter[frozenset[str]] = Counter()
        first = EventParser()
        events = _events(first, told)
        if first.unfinished:
            raise NotSpliceable("an event was told by half")
        self._begun = bool(events)
        for event in events:
            self._owe(event)

    def feed(self, chunk: bytes) -> bytes:
        """Return what of `chunk` the readers do not have yet.

        Raises:
            NotSpliceable: it says something else than the first stream did.
        """
        if not self._begun:
            return chunk
        return b"".join(self._continued(event) for event in _events(self._parser, chunk))

    def _owe(self, event: Event) -> None:
        document = _read(event)
        if document is None:
            return
        choices = _choices(document)
        if not choices:
            self._others[_shape(document)] += 1
        for choice in choices:
            for leaf in _leaves(choice):
                if leaf.is_text:
                    self._owed[leaf.path] = self._owed.get(leaf.path, "") + leaf.value
                elif leaf.is_mark:
                    self._marks.add(leaf.path)
                else:
                    raise NotSpliceable("more than texts was told")

    def _continued(self, event: Event) -> bytes:
        document = _read(event)
        if document is None:
            if any(self._owed.values()):
                raise NotSpliceable("the second stream is shorter")
            return encode_event(DONE)
        choices = _choices(document)
        if not choices:
            shape = _shape(document)
            if self._others[shape]:
                self._others[shape] -= 1
                return b""
            return encode_event(event.data, event=event.event)
        kept = [choice for choice in choices if self._is_news(choice)]
        return encode_event(encode({**document, "choices": kept}), event=event.event) if kept else b""

    def _is_news(self, choice: dict[str, Any]) -> bool:
        """Take out of `choice` what has been told; return whether anything is left."""
        news = said = False
        for leaf in _leaves(choice):
            if leaf.is_mark and leaf.path in self._marks:
                leaf.forget()
                said = True
            elif leaf.is_text:
                owed = self._owed.get(leaf.path, "")
                size = min(len(owed), len(leaf.value))
                if leaf.value[:size] != owed[:size]:
                    raise NotSpliceable("the second stream says something else")
                self._owed[leaf.path] = owed[size:]
                leaf.holder[leaf.name] = leaf.value[size:]
                said, news = said or size > 0, news or size < len(leaf.value)
            else:
                news = True
        index = _index(choice)
        finishes = bool(choice.get("finish_reason"))
        if finishes and any(owed for path, owed in self._owed.items() if path[0] == index):
            raise NotSpliceable("the second stream is shorter")
        # A choice that never said anything is a sign of life.
        return news or not said


def _events(parser: EventParser, data: bytes) -> list[Event]:
    try:
        return parser.feed(data)
    except EventTooLarge:
        raise NotSpliceable("an event is too long") from None


def _read(event: Event) -> dict[str, Any] | None:
    """Return what an event holds; None for the end mark."""
    if is_done(event.data):
        return None
    try:
        document = orjson.loads(event.data)
    except ValueError:
        raise NotSpliceable("an event is no JSON") from None
    if not isinstance(document, dict):
        raise NotSpliceable("an event is no JSON object")
    return document


def _choices(document: dict[str, Any]) -> list[dict[str, Any]]:
    choices = document.get("choices") or []
    if not isinstance(choices, list) or not all(isinstance(choice, dict) for choice in choices):
        raise NotSpliceable("choices are no list of objects")
    return choices


def _shape(document: dict[str, Any]) -> frozenset[str]:
    return frozenset(name for name, value in document.items() if value)


def _index(choice: dict[str, Any]) -> int:
    index = choice.get("index", 0)
    if not isinstance(index, int):
        raise NotSpliceable("an index is no number")
    return index


def _leaves(choice: dict[str, Any]) -> list[_Leaf]:
    """Return the values of one choice that are not empty, but for indices."""
    return list(_below(choice, (_index(choice),)))


def _below(node: dict[str, Any], path: Path) -> Iterator[_Leaf]:
    for name, value in node.items():
        if not value or name == "index":
            continue
        below = (*path, name)
        if isinstance(value, dict):
            yield from _below(value, below)
        elif name in _INDEXED and isinstance(value, list):
            for item in value:
                if not isinstance(item, dict) or not isinstance(item.get("index"), int):
                    raise NotSpliceable("a tool call has no index")
                yield from _below(item, (*below, item["index"]))
        else:
            yield _Leaf(node, name, value, below)
