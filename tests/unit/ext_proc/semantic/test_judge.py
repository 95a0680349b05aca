"""When two answers say the same."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import orjson
import pytest

from ext_proc.openai.paths import Operation
from ext_proc.semantic.embedding import EmbeddingFailed, Vectors
from ext_proc.semantic.judge import MAX_CHARS, answer_text, is_same


def choice(finish_reason: str = "stop", **message: Any) -> dict[str, Any]:
    """Return one choice of a chat's answer."""
    return {"finish_reason": finish_reason, "message": {"role": "assistant", "content": "hi", **message}}


@pytest.mark.parametrize(
    ("choices", "text"),
    [
        pytest.param([choice()], "hi", id="text"),
        pytest.param([choice(tool_calls=[], refusal=None)], "hi", id="empty fields"),
        pytest.param([choice(), choice()], None, id="two choices"),
        pytest.param([], None, id="no choice"),
        pytest.param([choice("length")], None, id="cut"),
        pytest.param([choice("tool_calls", tool_calls=[{"id": "1"}], content=None)], None, id="tool call"),
        pytest.param([choice(tool_calls=[{"id": "1"}])], None, id="text and tool call"),
        pytest.param([choice(refusal="no")], None, id="refusal"),
        pytest.param([choice(audio={"id": "a"})], None, id="audio"),
        pytest.param([choice(content=" ")], None, id="blank"),
        pytest.param([choice(content=[1])], None, id="no text"),
        pytest.param([7], None, id="no object"),
        pytest.param("stop", None, id="no list"),
    ],
)
def test_only_one_finished_text_is_an_answer(choices: object, text: str | None) -> None:
    """Whatever else a provider may say."""
    assert answer_text(Operation.CHAT, orjson.dumps({"choices": choices})) == text


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b"nonsense", b'{"choices": null}', b"7"])
def test_no_body_breaks_the_reader(body: bytes) -> None:
    """Anybody may have written it."""
    assert answer_text(Operation.CHAT, body) is None


def test_completions_have_their_text_elsewhere() -> None:
    """In the choice itself."""
    body = orjson.dumps({"choices": [{"finish_reason": "stop", "text": "once"}]})
    assert answer_text(Operation.COMPLETIONS, body) == "once"


class Alike:
    """Says how alike two texts are."""

    def __init__(self, similarity: float | None) -> None:
        self.similarity = similarity

    async def embed(self, texts: Sequence[str]) -> Vectors:
        """Return two vectors with that angle between them."""
        if self.similarity is None:
            raise EmbeddingFailed("nobody there")
        angle = np.arccos(self.similarity)
        return np.array([[1, 0], [np.cos(angle), np.sin(angle)]], np.float32)


@pytest.mark.parametrize(
    ("one", "other", "similarity", "same"),
    [
        ("Paris.", "paris", 0.0, True),
        ("Yes,  it is!", "yes it is", 0.0, True),
        ("它是 巴黎。", "它是 巴黎", 0.0, True),
        ("It costs 3.5.", "It costs 35.", 1.0, False),
        ("Press the button.", "You press the button.", 0.99, True),
        ("Press the button.", "You press the button.", 0.9, False),
        ("Press the button.", "Do not press the button.", 0.99, False),
        ("Turn it on, then wait.", "Turn it off, and then wait.", 0.99, False),
        ("It is in Rome.", "It is located in Paris.", 0.99, False),
        ("a b " * MAX_CHARS, "a c " * MAX_CHARS, 1.0, False),
    ],
)
async def test_answers_are_the_same_only_if_surely_so(
    one: str, other: str, similarity: float, same: bool
) -> None:
    """Equal, or alike beyond the bar with no detail that differs."""
    assert await is_same(one, other, Alike(similarity)) is same


async def test_without_an_embedder_only_equal_ones_are() -> None:
    """Where it is there and fails, nothing is known at all."""
    assert await is_same("Paris", "paris.", None)
    assert not await is_same("Press it.", "You press it.", None)
    with pytest.raises(EmbeddingFailed):
        await is_same("Press it.", "You press it.", Alike(None))
