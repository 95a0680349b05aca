"""The kinds of document as the command line names them; knows no field of theirs, to load quickly."""

from __future__ import annotations

from typing import Final

import typer

from control_plane.resources.plurals import KIND_OF, PLURAL_OF

# What the API lists beside documents.
LISTS: Final = ("audit", "revisions", "secrets", "sidecars", "tokens")
_PLURALS: Final = {kind.lower(): plural for kind, plural in PLURAL_OF.items()}


def plural_of(word: str) -> str:
    """Return the plural that `word` (`models`, `Model`, `model`) stands for.

    Raises:
        BadParameter: it is no kind of document; the nearest one is named.
    """
    return _known(word, tuple(KIND_OF))


def listed(word: str) -> str:
    """Return the list that `word` names: a kind of document as `plural_of` reads it, or one of `LISTS`.

    Raises:
        BadParameter: there is no such list; the nearest one is named.
    """
    return word.lower() if word.lower() in LISTS else _known(word, (*KIND_OF, *LISTS))


def _known(word: str, known: tuple[str, ...]) -> str:
    lowered = word.lower()
    if lowered in KIND_OF:
        return lowered
    if lowered in _PLURALS:
        return _PLURALS[lowered]
    import difflib  # noqa: PLC0415 - only for a slip

    near = difflib.get_close_matches(lowered, known, 1)
    hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
    raise typer.BadParameter(f"{word!r} is no kind; {hint}")
