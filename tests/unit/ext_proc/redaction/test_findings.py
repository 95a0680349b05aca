"""Texts without what was found in them."""

from __future__ import annotations

from ext_proc.redaction.findings import blanked


def test_blanks_are_as_long_as_what_they_hide() -> None:
    """So that positions hold; without spans the text is the same."""
    assert blanked("abcdef", [(1, 3), (5, 6)]) == "a\0\0de\0"
    assert blanked("abc", []) == "abc"
