"""What the provider of the soak answers."""

from __future__ import annotations

import pytest

from tests.soak.replies import conversation, names_in, pieces_of, vector_of


def said(role: str, content: str) -> dict[str, str]:
    """Return a message."""
    return {"role": role, "content": content}


def test_a_conversation_is_its_questions_in_order() -> None:
    """Each with its own answer behind it, or with none."""
    first, last = said("user", "q-a-1 please"), said("user", "q-a-2")
    answered = said("assistant", "".join(pieces_of("q-a-1", ["q-a-1"])))
    assert conversation([said("system", "be brief"), first, answered, last]) == ("q-a-2", ["q-a-1", "q-a-2"])


@pytest.mark.parametrize(
    "messages",
    [
        pytest.param([said("user", "hello")], id="no question"),
        pytest.param(
            [said("user", "q-a-1"), said("assistant", "re:q-a-2"), said("user", "q-a-3")], id="crossed"
        ),
        pytest.param([said("assistant", "re:q-a-1"), said("user", "q-a-1")], id="an answer before"),
    ],
)
def test_what_no_caller_has_asked_is_refused(messages: list[dict[str, str]]) -> None:
    """So the mesh has put it together wrongly."""
    with pytest.raises(ValueError, match=r"question|stands behind"):
        conversation(messages)


def test_answers_are_told_apart() -> None:
    """By the name of the question, in texts and in vectors."""
    assert names_in("".join(pieces_of("q-a-1", ["q-a-1"]))) == ["q-a-1", "q-a-1"]
    assert vector_of("q-a-1") != vector_of("q-a-2")
    assert len(pieces_of("q-longx-1", ["q-longx-1"])) > 400
