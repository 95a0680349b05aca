"""Batches of the API's own lists."""

from __future__ import annotations

import random
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ext_proc.openai.batching.inputs import Mismatch, Parts
from ext_proc.openai.batching.native import Native
from ext_proc.openai.paths import Operation
from tests.unit.ext_proc.openai.batching.conversing import dealt, parts_of, whole

EMBEDDINGS = Native(Operation.EMBEDDINGS)
COMPLETIONS = Native(Operation.COMPLETIONS)


def embed(*inputs: object, **more: Any) -> Parts:
    """Take an embeddings request apart."""
    value = inputs[0] if len(inputs) == 1 else list(inputs)
    parts = parts_of(EMBEDDINGS, Operation.EMBEDDINGS, {"model": "m", "input": value, **more})
    assert parts is not None
    return parts


def vectors(texts: list[Any], tokens: int = 100) -> dict[str, Any]:
    """Return a provider's answer: each vector is its text's length."""
    data = [{"object": "embedding", "index": i, "embedding": [len(text)]} for i, text in enumerate(texts)]
    return {"object": "list", "data": data, "model": "m-1", "usage": {"prompt_tokens": tokens}}


@pytest.mark.parametrize(
    ("value", "count"),
    [
        ("a", 1),
        ("", 1),
        (["a", "bb"], 2),
        ([1, 2, 3], 1),
        ([[1, 2], [3]], 2),
        ([], None),
        (None, None),
        ([1, "a"], None),
        ([["a"]], None),
        ([[]], None),
        ([True], None),
        ({"a": 1}, None),
    ],
)
def test_inputs(value: object, count: int | None) -> None:
    """A text, token numbers, or lists of these; everything else goes alone."""
    parts = parts_of(EMBEDDINGS, Operation.EMBEDDINGS, {"model": "m", "input": value})
    assert (len(parts.inputs) if parts is not None else None) == count


def test_each_gets_its_own_whatever_the_order() -> None:
    """Answers are told apart by index; each caller's begin at 0."""
    members = [embed("a"), embed("bb", "ccc"), embed("dddd")]
    answer = vectors(["a", "bb", "ccc", "dddd"])
    random.Random(4).shuffle(answer["data"])
    shares = whole(dealt(EMBEDDINGS, members, answer))
    bodies = [orjson.loads(EMBEDDINGS.compose(part)) for part in (shares[:1], shares[1:3], shares[3:])]
    assert [[(one["index"], one["embedding"]) for one in body["data"]] for body in bodies] == [
        [(0, [1])],
        [(0, [2]), (1, [3])],
        [(0, [4])],
    ]
    assert all((body["object"], body["model"]) == ("list", "m-1") for body in bodies)
    assert sum(body["usage"]["prompt_tokens"] for body in bodies) == 100
    assert all(body["usage"]["total_tokens"] == body["usage"]["prompt_tokens"] for body in bodies)


@pytest.mark.parametrize(
    "spoil",
    [
        pytest.param(lambda answer: answer["data"].pop(), id="one short"),
        pytest.param(lambda answer: answer["data"].append(answer["data"][0]), id="one too many"),
        pytest.param(lambda answer: answer["data"][0].update(index=1), id="doubled"),
        pytest.param(lambda answer: answer["data"][0].update(index=2), id="too large"),
        pytest.param(lambda answer: answer["data"][0].update(index=-1), id="negative"),
        pytest.param(lambda answer: answer["data"][0].update(index=True), id="no number"),
        pytest.param(lambda answer: answer["data"][0].pop("index"), id="no index"),
        pytest.param(lambda answer: answer.update(data=None), id="no data"),
        pytest.param(lambda answer: answer.update(error={"message": "x"}), id="an error"),
    ],
)
def test_what_does_not_match_is_nobodys(spoil: Any) -> None:
    """By number and by index."""
    answer = vectors(["a", "b"])
    spoil(answer)
    with pytest.raises(Mismatch):
        dealt(EMBEDDINGS, [embed("a"), embed("b")], answer)


@pytest.mark.parametrize("body", [b"<html>", b"[]", b"", b'{"data": [{"in'])
def test_what_is_no_answer_is_nobodys(body: bytes) -> None:
    """It may be anything."""
    with pytest.raises(Mismatch):
        dealt(EMBEDDINGS, [embed("a")], body)


@given(
    st.lists(st.lists(st.text(max_size=8), min_size=1, max_size=4), min_size=1, max_size=12),
    st.integers(0, 10_000),
    st.randoms(use_true_random=False),
)
def test_any_batch_adds_up(asked: list[list[str]], tokens: int, order: random.Random) -> None:
    """Nobody gets a neighbour's vector, and all of the usage is somebody's."""
    answer = vectors([text for texts in asked for text in texts], tokens)
    order.shuffle(answer["data"])
    shares = whole(dealt(EMBEDDINGS, [embed(list(texts)) for texts in asked], answer))
    spent = 0
    for texts in asked:
        mine, shares = shares[: len(texts)], shares[len(texts) :]
        body = orjson.loads(EMBEDDINGS.compose(mine))
        assert [entry["embedding"] for entry in body["data"]] == [[len(text)] for text in texts]
        spent += body["usage"]["prompt_tokens"]
    assert spent == tokens


def test_completions_with_several_choices() -> None:
    """Each prompt's choices are its own, indexed from 0; usage of the answer goes by what was said."""
    document = {"model": "m", "n": 2}
    members = [
        parts_of(COMPLETIONS, Operation.COMPLETIONS, {**document, "prompt": text}) for text in ("a", "b")
    ]
    texts = ["a0", "a1", "bbbb0", "bbbb1"]
    choices = [{"index": i, "text": text, "finish_reason": "stop"} for i, text in enumerate(texts)]
    usage = {"prompt_tokens": 2, "completion_tokens": 14, "total_tokens": 16}
    parts = [part for part in members if part is not None]
    shares = whole(dealt(COMPLETIONS, parts, {"choices": choices, "usage": usage}))
    first, second = (orjson.loads(COMPLETIONS.compose([share])) for share in shares)
    assert [choice["text"] for choice in first["choices"]] == ["a0", "a1"]
    assert [choice["index"] for choice in second["choices"]] == [0, 1]
    assert first["usage"] == {"prompt_tokens": 1, "completion_tokens": 4, "total_tokens": 5}
    assert second["usage"]["total_tokens"] == 11


@pytest.mark.parametrize("more", [{"n": 0}, {"n": 17}, {"n": "2"}, {"n": True}, {"best_of": 2}])
def test_completions_that_go_alone(more: dict[str, Any]) -> None:
    """Where choices could not be told apart."""
    assert parts_of(COMPLETIONS, Operation.COMPLETIONS, {"prompt": "a", **more}) is None


@pytest.mark.parametrize("usage", [None, {"prompt_tokens": -1}, {"prompt_tokens": "9"}])
def test_usage_that_was_not_told_is_not_made_up(usage: object) -> None:
    """Neither for the caller nor for a limit."""
    answer = {**vectors(["a", "b"]), "usage": usage}
    shares = whole(dealt(EMBEDDINGS, [embed("a"), embed("b")], answer))
    assert [share.tokens for share in shares] == [None, None]
    assert "usage" not in orjson.loads(EMBEDDINGS.compose(shares))


def test_texts_and_token_numbers_are_of_two_kinds() -> None:
    """No list holds both."""
    assert embed("a").kind == embed("a", "b").kind != embed([1, 2]).kind == embed([[1], [2]]).kind
