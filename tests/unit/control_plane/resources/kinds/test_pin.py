"""Pin's own rules."""

import pytest
from pydantic import ValidationError

from control_plane.resources.kinds.pin import PinSpec


def pin(message: str = "hi", answer: str = "Hello!") -> PinSpec:
    """Return a Pin."""
    return PinSpec.model_validate({"model": "m", "match": {"lastUserMessage": message}, "answer": answer})


def test_message_and_answer_are_as_written() -> None:
    """Empty, of many lines, in any script."""
    for text in ("", "two\nlines", "你好 👋", "x" * 100_000):
        found = pin(text, text)
        assert (found.match.last_user_message, found.answer) == (text, text)


@pytest.mark.parametrize("text", ["\ud800", "x" * (1 << 20) + "x"], ids=["half a character", "endless"])
def test_what_no_wire_takes_is_refused(text: str) -> None:
    """It would stand in the way of every sidecar's policy."""
    with pytest.raises(ValidationError):
        pin(message=text)
    with pytest.raises(ValidationError):
        pin(answer=text)
