"""The names of kinds."""

import pytest
import typer

from control_plane.cli.kinds import listed, plural_of


@pytest.mark.parametrize("word", ["policies", "policy", "Policy", "POLICIES"])
def test_a_kind_may_be_written_in_several_ways(word: str) -> None:
    """Plural or singular, large or small."""
    assert plural_of(word) == "policies"
    assert listed(word) == "policies"


def test_other_lists_are_no_kinds() -> None:
    """They are listed, not deleted."""
    assert listed("Sidecars") == "sidecars"
    with pytest.raises(typer.BadParameter):
        plural_of("sidecars")


@pytest.mark.parametrize(
    ("word", "hint"), [("modles", "did you mean models?"), ("zzz", "there are backends")]
)
def test_a_slip_is_answered_with_the_nearest(word: str, hint: str) -> None:
    """Or with all there are."""
    with pytest.raises(typer.BadParameter, match=hint):
        plural_of(word)
