"""One stream continued by another call's: what its readers have been told already is left out (pure).

It works where the second call says the same again, as a provider with a seed or without randomness does.
Where it does not, the readers' text would be nobody's: then the stream is not continued.
"""

from __future__ import annotations

from typing import Any, Final

import orjson

from ext_proc.openai.documents import encode
from ext_proc.openai.sse import DONE, Event, EventParser, EventTooLarge, encode_event

# What a delta or a choice may hold beside texts without making the splice uncertain.
_REPEATABLE: Final = frozenset(("index", "role", "finish_reason", "delta", "id", "name"))


class NotSpliceable(ValueError):
    """The second stream does not go on where the first one ended."""


class Splice:
    """Continues the stream of which `told` has been sent. Feed it the second stream from its beginning."""

    def __init__(self, told: bytes) -> None:
        """Read what was told.

        Raises:
            NotSpliceable: it ends in the middle of an event, or holds more than texts.
        """
        self._parser = EventParser()
        # By choice and field: the text that is still to be said again.
        self._owed: dict[tuple[int, str], str] = {}
        self._finished: set[int] = set()
        first = EventParser()
        try:
            events = first.feed(told)
        except EventTooLarge:
            raise NotSpliceable("what was told cannot be read") from None
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
        try:
            events = self._parser.feed(chunk)
        except EventTooLarge:
            raise NotSpliceable("the second stream cannot be read") from None
        return b"".join(self._continued(event) for event in events)

    def _owe(self, event: Event) -> None:
        for choice in _choices(event.data):
            index = _index(choice)
            if choice.get("finish_reason"):
                self._finished.add(index)
            for holder, name, text in _texts(choice):
                self._owed[index, name] = self._owed.get((index, name), "") + text
                holder[name] = ""
            _only_repeatable(choice)

    def _continued(self, event: Event) -> bytes:
        raw = encode_event(event.data, event=event.event)
        if not self._begun or event.data == DONE:
            return raw
        document = _read(event.data)
        choices = _choices(event.data, document)
        if not choices:
            return raw
        kept = []
        for choice in choices:
            index = _index(choice)
            trimmed, left = False, False
            for holder, name, text in _texts(choice):
                owed = self._owed.get((index, name), "")
                size = min(len(owed), len(text))
                if text[:size] != owed[:size]:
                    raise NotSpliceable("the second stream says something else")
                self._owed[index, name] = owed[size:]
                holder[name] = text[size:]
                trimmed, left = trimmed or size > 0, left or size < len(text)
            finishes = bool(choice.get("finish_reason")) and index not in self._finished
            if finishes and any(owed for (of, _), owed in self._owed.items() if of == index):
                raise NotSpliceable("the second stream is shorter")
            if left or finishes or not (trimmed or _says_nothing_new(choice)):
                kept.append(choice)
        if not kept:
            return b""
        return encode_event(encode({**document, "choices": kept}), event=event.event)


def _read(data: bytes) -> dict[str, Any]:
    try:
        document = orjson.loads(data)
    except ValueError:
        raise NotSpliceable("an event is no JSON") from None
    if not isinstance(document, dict):
        raise NotSpliceable("an event is no JSON object")
    return document


def _choices(data: bytes, document: dict[str, Any] | None = None) -> list[dict[str, Any]]:
    if data == DONE:
        return []
    choices = (document if document is not None else _read(data)).get("choices") or []
    if not isinstance(choices, list) or not all(isinstance(choice, dict) for choice in choices):
        raise NotSpliceable("choices are no list of objects")
    return choices


def _index(choice: dict[str, Any]) -> int:
    index = choice.get("index", 0)
    if not isinstance(index, int):
        raise NotSpliceable("a choice's index is no number")
    return index


def _texts(choice: dict[str, Any]) -> list[tuple[dict[str, Any], str, str]]:
    """Return the texts of one choice: where each stands, its name and itself."""
    delta = choice.get("delta")
    holders = [choice, delta] if isinstance(delta, dict) else [choice]
    return [
        (holder, name, value)
        for holder in holders
        for name, value in holder.items()
        if isinstance(value, str) and name not in _REPEATABLE
    ]


def _says_nothing_new(choice: dict[str, Any]) -> bool:
    """Whether nothing is left of a choice but what every stream begins with."""
    delta = choice.get("delta")
    holders = [choice, delta] if isinstance(delta, dict) else [choice]
    return all(not value or name in _REPEATABLE for holder in holders for name, value in holder.items())


def _only_repeatable(choice: dict[str, Any]) -> None:
    if not _says_nothing_new(choice):
        raise NotSpliceable("more than texts was told")
