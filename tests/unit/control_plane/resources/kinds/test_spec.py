"""What all specs share."""

import pytest
from pydantic import ValidationError

from control_plane.resources.kinds.spec import Line, Spec


class Named(Spec):
    """A spec with one line."""

    name: Line


@pytest.mark.parametrize("text", ["a", "a b", "ft:gpt-4o:org::id", "通义千问"])
def test_a_line_is_any_text(text: str) -> None:
    """In whatever script."""
    assert Named.model_validate({"name": text}).name == text


@pytest.mark.parametrize("text", ["", "a\n", "a\0", "\r", "\t", "\x7f"])
def test_a_line_has_no_control_characters(text: str) -> None:
    """And is not empty."""
    with pytest.raises(ValidationError):
        Named.model_validate({"name": text})
