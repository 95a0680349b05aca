"""What a pod says about its injection."""

from __future__ import annotations

import pytest

from control_plane.webhook.opting import BadOptError, opts_out

INJECT = "outrigger.dev/inject"


@pytest.mark.parametrize("where", ["labels", "annotations"])
@pytest.mark.parametrize(
    ("word", "out"),
    [
        ("disabled", True),
        ("Disabled", True),
        ("false", True),
        ("False", True),
        ("no", True),
        ("OFF", True),
        (" disabled ", True),
        (False, True),
        ("enabled", False),
        ("true", False),
        ("Yes", False),
        ("on", False),
        (True, False),
    ],
)
def test_a_word_means_yes_or_no(where: str, word: object, out: bool) -> None:
    """In any case of letters; of a manifest that says it without quotes, too."""
    assert opts_out({where: {INJECT: word}}) is out


@pytest.mark.parametrize("word", ["", "0", "1", "perhaps", "disabled-", None, [], 0])
def test_another_word_is_told(word: object) -> None:
    """By its place and with what is taken there."""
    with pytest.raises(BadOptError, match=rf"^annotation {INJECT} must be disabled or enabled$"):
        opts_out({"annotations": {INJECT: word}})
    with pytest.raises(BadOptError, match=rf"^label {INJECT} must be"):
        opts_out({"labels": {INJECT: word}, "annotations": {INJECT: "enabled"}})


def test_one_no_is_enough() -> None:
    """Whatever the other place says."""
    for other in ("enabled", "perhaps"):
        assert opts_out({"labels": {INJECT: "disabled"}, "annotations": {INJECT: other}})
        assert opts_out({"labels": {INJECT: other}, "annotations": {INJECT: "off"}})


def test_who_says_nothing_is_in() -> None:
    """Labels and annotations may be absent or null."""
    assert not opts_out({})
    assert not opts_out({"labels": None, "annotations": {"inject": "disabled"}})
