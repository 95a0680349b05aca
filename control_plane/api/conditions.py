"""Conditional requests: `If-Match` and `If-None-Match` (pure).

https://www.rfc-editor.org/rfc/rfc9110#section-13
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

ANY: Final = "*"
_TAG: Final = re.compile(r'(W/)?("[\x21\x23-\x7e\x80-\xff]*")')


@dataclass(frozen=True, slots=True)
class WriteConditions:
    """What the registry is asked to make sure of under its lock."""

    if_match: str | None = None
    if_none_match: bool = False


def entity_tags(header: str) -> list[str] | None:
    """Return the tags of a header, weak ones with their `W/`; None when it is not of its grammar.

    Commas may stand inside a tag, so the text is read tag by tag.
    """
    tags: list[str] = []
    rest = header.strip(" \t,")
    while rest:
        found = _TAG.match(rest)
        if found is None:
            return None
        tags.append(found[0])
        behind = rest[found.end() :].lstrip(" \t")
        if behind and not behind.startswith(","):
            return None
        rest = behind.strip(" \t,")
    return tags or None


def write_conditions(if_match: str | None, if_none_match: str | None) -> WriteConditions | str:
    """Return what a PUT or DELETE depends on, or a sentence that says what is wrong with its headers."""
    if if_match is not None and if_match.strip() != ANY and entity_tags(if_match) is None:
        return 'If-Match must be * or entity tags in double quotes, such as "r12"'
    if if_none_match is not None and if_none_match.strip() != ANY:
        return "If-None-Match can only be * when something is changed: the document must not exist"
    return WriteConditions(if_match, if_none_match is not None)


def not_modified(if_none_match: str | None, current: str) -> bool:
    """Say whether whoever reads has `current` already. A header that cannot be read counts for nothing."""
    if if_none_match is None:
        return False
    if if_none_match.strip() == ANY:
        return True
    tags = entity_tags(if_none_match) or []
    return current in (tag.removeprefix("W/") for tag in tags)
