"""Tier's own rules."""

import pytest
from pydantic import ValidationError

from control_plane.resources.kinds.tier import TierSpec, check_headers


def test_header_names_are_lower_case_inside() -> None:
    """HTTP does not tell cases apart; values stay as written."""
    assert check_headers({"X-Plan": "Gold"}) == {"x-plan": "Gold"}


@pytest.mark.parametrize("headers", [{"a b": "x"}, {"": "x"}, {"X": "1", "x": "2"}, {"a\n": "x"}])
def test_what_is_no_header_name_is_refused(headers: dict[str, str]) -> None:
    """Blanks, nothing, and one header twice."""
    with pytest.raises(ValueError, match="header"):
        check_headers(headers)


@pytest.mark.parametrize("value", ["a\0", "a\r\nb: c", "a\n", "\r"])
def test_what_no_header_can_hold_is_refused(value: str) -> None:
    """No caller could send it."""
    with pytest.raises(ValueError, match="line breaks"):
        check_headers({"x": value})


def test_an_empty_match_is_refused() -> None:
    """It would put every caller into the Tier."""
    with pytest.raises(ValidationError):
        TierSpec.model_validate({"match": {"header": {}}})


def test_half_a_character_is_no_value() -> None:
    """No wire takes it."""
    with pytest.raises(ValidationError):
        TierSpec.model_validate({"match": {"header": {"x": "\ud800"}}})
