"""What the deltas of one choice add up to (pure).

Texts add up, but for what is said again, and lists are merged by what their items say of themselves; of
everything else the last value counts, and nothing is unsaid by an empty one.
"""

from __future__ import annotations

from typing import Any, Final

import orjson

# Said again by some providers in each chunk: never added up. Any other text of a delta is, known or not, as
# OpenAI's client does.
SAID_AGAIN: Final = frozenset(
    ("channel", "format", "id", "index", "name", "object", "phase", "recipient", "role", "status", "type")
)
# Texts that some choices have beside their delta, or in the place of it.
TEXTS: Final = frozenset(("reasoning", "reasoning_content", "text"))


class NotJoinable(ValueError):
    """A chunk has a form that cannot be added to the others; the stream itself is none the worse for it."""


def says(value: object) -> bool:
    """Whether a value says anything: an empty one does not, a number does."""
    return bool(value) or isinstance(value, int | float)


def joined(name: str, before: Any, value: Any) -> Any:
    """Return what two values of one field of a delta add up to; `before` may be changed."""
    if value is None:
        return before
    if before is None:
        # A copy of what will be added to; the chunk itself stays as it came.
        return joined(name, value.__class__(), value) if isinstance(value, dict | list) else value
    kind = value.__class__
    if kind is not before.__class__:
        return _joined_with_another_kind(name, before, value)
    if kind is str:
        if name in SAID_AGAIN:
            return value or before
        return _added(before, value)
    if kind is dict:
        for key, item in value.items():
            before[key] = joined(key, before.get(key), item)
        return before
    if kind is list:
        return _joined_lists(name, before, value)
    return value


def _joined_with_another_kind(name: str, before: Any, value: Any) -> Any:
    compound = (str, list, dict)
    if not isinstance(before, compound) and not isinstance(value, compound):
        return value
    if isinstance(value, compound) and not value:
        return before
    if isinstance(before, compound) and not before:
        return joined(name, None, value)
    if name == "content" and {before.__class__, value.__class__} == {str, list}:
        # Some think in parts and then answer in plain text.
        return joined(name, _content_parts(before), _content_parts(value))
    if name in SAID_AGAIN:
        return value
    raise NotJoinable(f"{name} is now of one kind, now of another")


def _content_parts(content: str | list[Any]) -> list[Any]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _added(before: str, value: str) -> str:
    if "\ud800" <= before[-1:] <= "\udbff" and "\udc00" <= value[:1] <= "\udfff":
        pair = (before[-1] + value[0]).encode("utf-16-le", "surrogatepass").decode("utf-16-le")
        return before[:-1] + pair + value[1:]
    return before + value


def _joined_lists(name: str, before: list[Any], items: list[Any]) -> list[Any]:
    for item in items:
        if not isinstance(item, dict):
            before.append(item)
            continue
        known = _known_call(before, item) if name == "tool_calls" else _known_item(name, before, item)
        if known is None:
            before.append(joined("", {}, item))
        else:
            joined("", known, item)
    return before


def _known_item(name: str, before: list[Any], item: dict[str, Any]) -> dict[str, Any] | None:
    index = item.get("index")
    if isinstance(index, int):
        return next((one for one in before if isinstance(one, dict) and one.get("index") == index), None)
    if name == "content" and before and set(item) == {"type", "text"}:
        last = before[-1]
        return last if isinstance(last, dict) and set(last) == set(item) else None
    return None


def _known_call(calls: list[Any], item: dict[str, Any]) -> dict[str, Any] | None:
    """Return the tool call that `item` is a fragment of, None if it begins one.

    By its index, which some providers leave out or have 0 for each, then by its id, which some say once and
    some again; without either it is a fragment of the last one, unless it begins anew.
    """
    known = [one for one in calls if isinstance(one, dict)]
    index, call_id = item.get("index"), item.get("id")
    has_index = isinstance(index, int)
    if has_index:
        known = [one for one in known if one.get("index") == index]
    if call_id:
        same = [one for one in known if one.get("id") == call_id]
        if same or not has_index:
            return same[-1] if same else None
        if _function_name(item):
            known = [one for one in known if not one.get("id")]
        # Else each fragment has an id of its own.
    return known[-1] if known and not _begins_anew(known[-1], item) else None


def _function_name(call: dict[str, Any]) -> object:
    function = call.get("function")
    return function.get("name") if isinstance(function, dict) else None


def _begins_anew(call: dict[str, Any], item: dict[str, Any]) -> bool:
    of_call, of_item = call.get("function"), item.get("function")
    if not isinstance(of_call, dict) or not isinstance(of_item, dict) or not of_item.get("name"):
        return False
    if of_item["name"] != of_call.get("name"):
        return bool(of_call.get("name"))
    return bool(of_item.get("arguments")) and _is_json(of_call.get("arguments"))


def _is_json(text: object) -> bool:
    try:
        orjson.loads(text if isinstance(text, str) else "")
    except ValueError:
        return False
    return True


def extended(before: Any, value: Any) -> Any:
    """Return logarithms of probabilities of more tokens: lists, or an object of lists."""
    if value is None:
        return before
    if before is None:
        before = value.__class__() if isinstance(value, dict | list) else value
    if value.__class__ is not before.__class__:
        raise NotJoinable("logprobs are now of one kind, now of another")
    if isinstance(value, list):
        before.extend(value)
        return before
    if isinstance(value, dict):
        for name, item in value.items():
            before[name] = (
                extended(before.get(name), item)
                if isinstance(item, dict | list)
                else item or before.get(name)
            )
        return before
    return value
