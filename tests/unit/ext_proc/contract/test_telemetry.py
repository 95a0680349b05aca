"""What the processor tells the agent of a call, as one text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ext_proc.contract.telemetry import Call, pack, unpack

NAMES = st.text(st.characters(exclude_categories=["C"]), max_size=20)


@given(st.builds(Call, *([NAMES] * len(Call._fields))))
def test_what_is_packed_is_unpacked(call: Call) -> None:
    """Field by field, whatever the order they are told in."""
    told = list(call._asdict().items())
    assert unpack(pack(told)) == unpack(pack(reversed(told))) == call


def test_the_last_word_counts_and_others_are_left_out() -> None:
    """A stand-in is told after the one that was chosen first; numbers and headers go by themselves."""
    told = (("model", "a"), ("input_tokens", 3.0), ("model", "b"), ("shown_model", "x"), ("stream", True))
    assert unpack(pack(told)) == Call(model="b", stream="True")


@pytest.mark.parametrize("text", ["", "-", "x", "\x1e" * 40])
def test_another_text_is_no_call(text: str) -> None:
    """The line of a call that the processor never saw has none."""
    assert unpack(text) == Call()
