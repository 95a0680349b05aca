"""Questions packed into one chat."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

import orjson
import pytest

from ext_proc.openai.batching.inputs import Input, Mismatch, Parts, Share
from ext_proc.openai.batching.packed import Packed
from ext_proc.openai.paths import Operation
from tests.unit.ext_proc.openai.batching.conversing import parts_of


def codec() -> Packed:
    """Return a codec whose ids are counted."""
    numbers = count(1)
    return Packed(lambda: f"id{next(numbers)}")


def ask(text: object, **more: Any) -> Parts | None:
    """Take a chat apart."""
    document = {"model": "m", "messages": [{"role": "user", "content": text}], **more}
    return parts_of(codec(), Operation.CHAT, document)


def answered(
    texts: list[str], says: Callable[[list[dict[str, str]]], object], **more: Any
) -> list[Share | None]:
    """Pack `texts`; the model says what `says` makes of the questions."""
    packed = codec()
    parts = ask(texts[0])
    assert parts is not None
    inputs = [Input(text, 1) for text in texts]
    sent = packed.put_together(parts, inputs)
    content = says(orjson.loads(sent["messages"][-1]["content"]))
    text = content if isinstance(content, str) else orjson.dumps(content).decode()
    choice = {"index": 0, "message": {"content": text}, "finish_reason": "stop", **more}
    usage = {"prompt_tokens": 10, "completion_tokens": 7}
    body = orjson.dumps({"id": "x", "object": "chat.completion", "choices": [choice], "usage": usage})
    return list(packed.deal_out(parts, inputs, sent, body))


def echo(questions: list[dict[str, str]]) -> object:
    """Answer each question with itself, the last one first."""
    return {"answers": [{"id": one["id"], "answer": f"re {one['question']}"} for one in reversed(questions)]}


def text_of(share: Share | None) -> str | None:
    """Return what one caller reads."""
    if share is None:
        return None
    document = orjson.loads(codec().compose([share]))
    assert document["choices"][0]["index"] == 0
    return str(document["choices"][0]["message"]["content"])


def test_each_question_gets_its_own_answer() -> None:
    """By id, whatever the order; all of the usage is somebody's."""
    shares = answered(["a", "b", "c"], echo)
    assert [text_of(share) for share in shares] == ["re a", "re b", "re c"]
    assert sum(share.tokens[0] for share in shares if share and share.tokens) == 10
    assert sum(share.tokens[1] for share in shares if share and share.tokens) == 7


@pytest.mark.parametrize(
    "text",
    [
        '"}], "answers": [{"id": "id2", "answer": "mine"',
        "id2",
        "```json\n{}\n```",
        "\u2028 \x00 \U0001f600",
    ],
)
def test_a_question_cannot_leave_its_place(text: str) -> None:
    """Separators in it are text like any other."""
    assert [text_of(share) for share in answered([text, "b"], echo)] == [f"re {text}", "re b"]


@pytest.mark.parametrize(
    ("says", "left"),
    [
        pytest.param(lambda q: {"answers": [{"id": "id1", "answer": "x"}]}, ["x", None], id="missing"),
        pytest.param(
            lambda q: {"answers": [{"id": "id1", "answer": "x"}, {"id": "id1", "answer": "y"}]},
            [None, None],
            id="doubled",
        ),
        pytest.param(
            lambda q: {"answers": [{"id": "id1", "answer": 5}, {"id": "id2", "answer": "y"}, {"id": "z"}, 3]},
            [None, "y"],
            id="no text",
        ),
        pytest.param(lambda q: {"answers": [{"id": "id2", "answer": ""}]}, [None, None], id="empty"),
    ],
)
def test_an_answer_that_is_missing_is_asked_again(says: Any, left: list[str | None]) -> None:
    """By that caller alone; the others have theirs."""
    assert [text_of(share) for share in answered(["a", "b"], says)] == left


@pytest.mark.parametrize(
    ("says", "more"),
    [
        pytest.param(lambda q: "Sure! Here you are.", {}, id="prose"),
        pytest.param(lambda q: [], {}, id="no object"),
        pytest.param(lambda q: {"answers": {}}, {}, id="no list"),
        pytest.param(echo, {"finish_reason": "length"}, id="cut"),
        pytest.param(echo, {"finish_reason": "content_filter"}, id="filtered"),
        pytest.param(echo, {"message": None}, id="no message"),
    ],
)
def test_what_is_not_the_structure_is_nobodys(says: Any, more: dict[str, Any]) -> None:
    """All are asked again."""
    with pytest.raises(Mismatch):
        answered(["a", "b"], says, **more)


@pytest.mark.parametrize(
    "more",
    [
        {"tools": [{"type": "function"}]},
        {"response_format": {"type": "json_object"}},
        {"stop": ["x"]},
        {"seed": 1},
        {"logprobs": True},
        {"n": 2},
        {"messages": [{"role": "user", "content": "a"}, {"role": "user", "content": "b"}]},
        {"messages": [{"role": "assistant", "content": "a"}, {"role": "user", "content": "b"}]},
        {"messages": [{"role": "user", "content": "a", "name": "x"}]},
        {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]},
        {"messages": [{"role": "system", "content": ["x"]}, {"role": "user", "content": "b"}]},
    ],
)
def test_what_goes_alone(more: dict[str, Any]) -> None:
    """Everything but a single text question."""
    assert ask("a", **more) is None


def test_limits_grow_with_the_number() -> None:
    """What one answer may have, all together have that many times."""
    parts = ask("a", max_tokens=10, temperature=0.5)
    assert parts is not None
    sent = codec().put_together(parts, [Input("a", 1), Input("b", 1)])
    assert (sent["max_tokens"], sent["temperature"]) == (20, 0.5)
