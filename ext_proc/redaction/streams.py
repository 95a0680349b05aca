"""A stream with the values of its request put back, also where a placeholder is cut between two parts (pure).

Of a text only the end is held back that may be the beginning of a placeholder; it goes out with the next part
of the same text, or before the choice ends. Every text of every choice and tool call has an end of its own.
"""

from __future__ import annotations

import re
from typing import Any, Final

import orjson

from ext_proc.openai.recording import event_ends
from ext_proc.openai.sse import MAX_EVENT_BYTES, Event, EventParser, encode_event, is_done
from ext_proc.redaction.answers import UNREAD, is_quoted, read_leniently, restore_texts, write
from ext_proc.redaction.masks import Masks

# A list of objects and an empty one are no beginnings of a placeholder.
_BRACKET: Final = re.compile(rb"\[(?![{\]])|\\u005[bB]")
_NOT_SAID_AGAIN: Final = frozenset(("choices", "error", "usage"))

# An object's field, or an item of a list: its index or place, and its type where it has no index.
Step = str | tuple[int, str | None]
Path = tuple[Step, ...]


class StreamRestorer:
    """Follows one stream; feed it every part in order. What it cannot read passes as it is."""

    __slots__ = ("_held", "_masks", "_parser", "_tail", "_top")

    def __init__(self, masks: Masks) -> None:
        self._masks = masks
        # An event that is longer than what is held here has passed in parts.
        self._parser = EventParser(8 * MAX_EVENT_BYTES)
        self._tail = b""
        # By choice and path: the end of a text that may be the beginning of a placeholder.
        self._held: dict[tuple[int, Path], str] = {}
        # What the last chunk said beside its choices.
        self._top: dict[str, Any] = {}

    def feed(self, part: bytes, *, end: bool = False) -> bytes:
        """Return what the caller gets in the place of `part`; `end`: nothing comes after it."""
        data = self._tail + part
        whole = 0
        out: list[bytes] = []
        for end_of_event in event_ends(data, max(0, len(self._tail) - 3)):
            out.append(self._event(data[whole:end_of_event]))
            whole = end_of_event
        self._tail = data[whole:]
        if end or len(self._tail) > MAX_EVENT_BYTES:
            out.append(self._tail)
            self._tail = b""
        if end:
            out.append(self._rest())
        return b"".join(out)

    def _event(self, block: bytes) -> bytes:
        if not self._held and _BRACKET.search(block) is None:
            return block
        events = self._parser.feed(block)
        if len(events) != 1:
            return block
        event = events[0]
        if is_done(event.data):
            return self._rest() + block
        try:
            chunk = _read(event.data)
        except ValueError:
            return block
        if not isinstance(chunk, dict):
            return block
        try:
            return self._restored(block, event, chunk)
        except RecursionError:
            return block

    def _restored(self, block: bytes, event: Event, chunk: dict[str, Any]) -> bytes:
        choices = chunk.get("choices")
        changed = restore_texts(self._masks, chunk.get("error"))
        # Nothing of an answer comes behind an error.
        before = self._rest() if "error" in chunk else b""
        if isinstance(choices, list):
            self._top = {name: value for name, value in chunk.items() if name not in _NOT_SAID_AGAIN}
        for position, choice in enumerate(choices if isinstance(choices, list) else ()):
            if not isinstance(choice, dict):
                continue
            number = choice.get("index")
            if number is None:
                number = position
            if not isinstance(number, int):
                continue
            ends = choice.get("finish_reason") is not None
            changed = self._restore(choice, number, (), ends) or changed
            if ends:
                before += self._rest(number)
        if not changed:
            return before + block
        # An id stands for all events after it too: it is said again only where it was said.
        said = event.id if b"id:" in block else None
        return before + encode_event(write(chunk), event=event.event, id=said, retry_ms=event.retry_ms)

    def _restore(self, node: dict[str, Any], choice: int, path: Path, ends: bool) -> bool:
        """Restore the texts of `node` in place; return whether one changed."""
        changed = False
        for name, value in node.items():
            if name in UNREAD:
                continue
            if value.__class__ is str:
                node[name] = self._text(value, choice, (*path, name), ends, is_quoted(self._masks, name))
                changed = changed or node[name] != value
            elif value.__class__ is dict:
                changed = self._restore(value, choice, (*path, name), ends) or changed
            elif value.__class__ is list:
                for position, item in enumerate(value):
                    if item.__class__ is dict:
                        step = _step(item, position)
                        changed = self._restore(item, choice, (*path, name, step), ends) or changed
        return changed

    def _text(self, value: str, choice: int, path: Path, ends: bool, quoted: bool) -> str:
        text = self._held.pop((choice, path), "") + value
        whole = len(text) if ends else self._masks.whole_until(text)
        if whole < len(text):
            self._held[choice, path] = text[whole:]
        return self._masks.restore(text[:whole], quoted=quoted)

    def _rest(self, choice: int | None = None) -> bytes:
        """Return chunks that say what is held, of one choice or of all: no placeholder came of it."""
        kept: dict[tuple[int, Path], str] = {}
        out: list[bytes] = []
        for (number, path), text in self._held.items():
            if choice is None or number == choice:
                said = {"index": number, **_at(path, text), "finish_reason": None}
                out.append(encode_event(write({**self._top, "choices": [said]})))
            else:
                kept[number, path] = text
        self._held = kept
        return b"".join(out)


def _read(data: bytes) -> Any:
    try:
        return orjson.loads(data)
    except ValueError:
        # Half a surrogate pair, for one: some providers cut their text within a character.
        return read_leniently(data)


def _step(item: dict[str, Any], position: int) -> Step:
    index, kind = item.get("index"), item.get("type")
    return (index, None) if isinstance(index, int) else (position, kind if isinstance(kind, str) else "")


def _at(path: Path, text: str) -> dict[str, Any]:
    """Return a choice that says `text` at `path` and nothing else."""
    node: Any = text
    for step in reversed(path):
        if isinstance(step, str):
            node = {step: node}
        else:
            number, kind = step
            node = [{**({"index": number} if kind is None else {"type": kind}), **node}]
    said: dict[str, Any] = node
    return said
