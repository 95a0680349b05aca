"""Placeholders and the values that they stand for."""

from __future__ import annotations

import pytest

from ext_proc.redaction.masks import Masks


def test_one_value_has_one_placeholder() -> None:
    """Numbered by entity, in order of appearance; every appearance is counted."""
    masks = Masks()
    given = [
        masks.mask("phone", "1"),
        masks.mask("email", "a"),
        masks.mask("phone", "2"),
        masks.mask("phone", "1"),
    ]
    assert given == ["[PHONE_1]", "[EMAIL_1]", "[PHONE_2]", "[PHONE_1]"]
    assert dict(masks.items) == {"phone": 3, "email": 1}


def test_placeholders_that_the_caller_wrote_stay_the_callers() -> None:
    """They are given to no value, and nothing takes their place."""
    masks = Masks({"[PHONE_1]", "[PHONE_3]"})
    assert [masks.mask("phone", value) for value in "ab"] == ["[PHONE_2]", "[PHONE_4]"]
    assert (
        masks.restore("[PHONE_1] [PHONE_2] [PHONE_3] [PHONE_4] [PHONE_5]")
        == "[PHONE_1] a [PHONE_3] b [PHONE_5]"
    )


def test_values_are_escaped_where_the_text_is_json() -> None:
    """A key of several lines fits into a JSON string."""
    masks = Masks()
    placeholder = masks.mask("key", 'a"\n电')
    assert masks.restore(f"<{placeholder}>") == '<a"\n电>'
    assert masks.restore(f'"{placeholder}"', quoted=True) == '"a\\"\\n电"'


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        ("", 0),
        ("call", 4),
        ("call [", 5),
        ("call [PHO", 5),
        ("call [PHONE_1", 5),
        ("call [PHONE_1]", 14),
        ("call [PHONE_12", 14),
        ("call [EM", 8),
        ("[[", 1),
        ("[x] y", 5),
    ],
)
def test_only_the_beginning_of_a_placeholder_is_held(text: str, whole: int) -> None:
    """Of one that was given; any other bracket goes on at once."""
    masks = Masks()
    masks.mask("phone", "1")
    assert masks.whole_until(text) == whole


def test_values_are_in_no_representation() -> None:
    """Whoever logs the masks logs how many there are."""
    masks = Masks()
    masks.mask("phone", "13800138000")
    assert repr(masks) == "Masks({'phone': 1})"
