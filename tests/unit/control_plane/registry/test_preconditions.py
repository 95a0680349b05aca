"""If-Match and If-None-Match."""

import pytest

from control_plane.registry.errors import PreconditionError
from control_plane.registry.preconditions import check_preconditions
from control_plane.registry.values import StoredDocument
from tests.harness.registries import START

STORED = StoredDocument("Tier", "t", 12, b"{}", START)


@pytest.mark.parametrize("if_match", [None, "*", '"r12"', '"r1", "r12"', ' "r12" '])
def test_a_document_in_the_state_that_is_counted_on_passes(if_match: str | None) -> None:
    """Any of several tags, or just that there is one."""
    check_preconditions("Tier/t", STORED, if_match)


@pytest.mark.parametrize("if_match", ['"r11"', 'W/"r12"', "r12", "", '"*"', '"r1", "r2"'])
def test_another_tag_is_refused_with_the_one_there_is(if_match: str) -> None:
    """Weak tags and texts that are no tag are no match."""
    with pytest.raises(PreconditionError, match='Tier/t is at "r12"') as error:
        check_preconditions("Tier/t", STORED, if_match)
    assert error.value.current == '"r12"'


@pytest.mark.parametrize("if_match", ["*", '"r12"'])
def test_a_document_that_is_not_there_matches_nothing(if_match: str) -> None:
    """It was deleted meanwhile."""
    with pytest.raises(PreconditionError, match="does not exist") as error:
        check_preconditions("Tier/t", None, if_match)
    assert error.value.current is None


def test_a_document_that_must_be_new_is_refused_when_there_is_one() -> None:
    """Of two who create it, one is told."""
    check_preconditions("Tier/t", None, None, if_none_match=True)
    with pytest.raises(PreconditionError):
        check_preconditions("Tier/t", STORED, None, if_none_match=True)
