"""How alike two answers are by their words."""

from __future__ import annotations

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ext_proc.openai.likeness import AGREED_FROM, answer_text, similarity
from ext_proc.openai.paths import Operation


@pytest.mark.parametrize(
    ("one", "other", "alike"),
    [
        ("Positive.", "positive", True),
        ("positive", "negative", False),
        ("The capital of France is Paris.", "Paris is the capital of France, of course.", True),
        ("The total is 1,250.75 euros.", "It comes to 980 euros.", False),
        ("今天天气很好", "今天天气很好。", True),
        ("今天天气很好", "我不知道", False),
        ("", "", True),
        ("", "anything", False),
    ],
)
def test_what_says_about_the_same(one: str, other: str, alike: bool) -> None:
    """Case, punctuation and the order of words do not matter."""
    assert (similarity(one, other) >= AGREED_FROM) is alike


@given(st.text(max_size=30), st.text(max_size=30))
def test_it_is_symmetric_and_bounded(one: str, other: str) -> None:
    """Whatever was answered."""
    assert similarity(one, other) == similarity(other, one)
    assert 0 <= similarity(one, other) <= 1
    assert similarity(one, one) == 1


def chat(**message: object) -> bytes:
    """Return an answer with one choice."""
    return orjson.dumps({"choices": [{"message": message}]})


@pytest.mark.parametrize(
    ("operation", "body", "text"),
    [
        (Operation.CHAT, chat(content="hi"), "hi"),
        (Operation.CHAT, chat(content=None, refusal="no"), "no"),
        (Operation.CHAT, chat(tool_calls=[{"function": {"name": "f", "arguments": "{}"}}]), "f {}"),
        (Operation.COMPLETIONS, b'{"choices": [{"text": "a"}, {"text": "b"}]}', "a\nb"),
        (Operation.EMBEDDINGS, b'{"data": []}', None),
        (Operation.CHAT, b"[]", None),
        (Operation.CHAT, b'{"choices": [3]}', None),
        (Operation.CHAT, b"nonsense", None),
    ],
)
def test_all_that_an_answer_says(operation: Operation, body: bytes, text: str | None) -> None:
    """Each choice, refusals and calls of tools; what is no answer says nothing."""
    assert answer_text(operation, body) == text
