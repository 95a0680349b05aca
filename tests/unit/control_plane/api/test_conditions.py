"""If-Match and If-None-Match as texts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from control_plane.api.conditions import WriteConditions, entity_tags, not_modified, write_conditions


@pytest.mark.parametrize(
    ("header", "tags"),
    [
        ('"r1"', ['"r1"']),
        ('"r1", W/"r2" ,"r3"', ['"r1"', 'W/"r2"', '"r3"']),
        ('"a,b", "c"', ['"a,b"', '"c"']),
        (', "r1",', ['"r1"']),
        ("r1", None),
        ('"r1" "r2"', None),
        ('"r1', None),
        ("", None),
        (",", None),
        ("*", None),
        ('w/"r1"', None),
        ('"a\x7f"', None),
    ],
)
def test_tags_are_read_by_their_grammar(header: str, tags: list[str] | None) -> None:
    """A comma may stand inside one; what is not of the grammar is nothing."""
    assert entity_tags(header) == tags


@given(st.text(max_size=60))
def test_any_text_is_read_or_refused(header: str) -> None:
    """No header breaks the reader."""
    tags = entity_tags(header)
    assert tags is None or all(tag.endswith('"') for tag in tags)


@pytest.mark.parametrize(
    ("if_match", "if_none_match", "found"),
    [
        (None, None, WriteConditions()),
        ('"r1"', None, WriteConditions('"r1"')),
        (" * ", None, WriteConditions(" * ")),
        (None, "*", WriteConditions(None, True)),
        ('"r1", "r2"', " *", WriteConditions('"r1", "r2"', True)),
        ("r1", None, "If-Match must be"),
        (None, '"r1"', "If-None-Match can only be *"),
    ],
)
def test_what_a_change_depends_on(
    if_match: str | None, if_none_match: str | None, found: WriteConditions | str
) -> None:
    """What cannot be read is told, not left out."""
    result = write_conditions(if_match, if_none_match)
    if isinstance(found, str):
        assert isinstance(result, str)
        assert result.startswith(found)
    else:
        assert result == found


@pytest.mark.parametrize(
    ("header", "same"),
    [
        (None, False),
        ("*", True),
        ('"r1"', True),
        ('W/"r1"', True),
        ('"r0", "r1"', True),
        ('"r0"', False),
        ("r1", False),
    ],
)
def test_a_reader_that_has_it_needs_no_body(header: str | None, same: bool) -> None:
    """Weak tags count for reading; what cannot be read counts for nothing."""
    assert not_modified(header, '"r1"') is same
