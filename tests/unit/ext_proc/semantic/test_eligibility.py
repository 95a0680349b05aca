"""Which requests ask a question, and which questions are of one partition."""

from __future__ import annotations

from typing import Any

import pytest

from ext_proc.contract.policies import CachePolicy, Policy
from ext_proc.contract.snapshot import Version
from ext_proc.exchange import Exchange
from ext_proc.semantic.eligibility import MAX_CHARS, similar_question
from tests.unit.ext_proc.exchanges import exchange

USER = {"role": "user", "content": "hello"}


def chat(*messages: object, path: str = "/v1/chat/completions", **fields: Any) -> Exchange:
    """Return an exchange whose version is assigned; `fields` of None are left out."""
    document = {"model": "m", "messages": list(messages) or [USER], **fields}
    one = exchange(document={k: v for k, v in document.items() if v is not None}, path=path)
    one.policy = Policy(cache=CachePolicy(enabled=True))
    one.model = one.loaded.snapshot.models["m"]
    one.version = one.model.versions[0]
    one.backend = one.loaded.snapshot.backends["b"]
    return one


def completion(prompt: object, **fields: Any) -> Exchange:
    """Return a completion's exchange."""
    return chat(path="/v1/completions", messages=None, prompt=prompt, **fields)


@pytest.mark.parametrize(
    ("asked", "text"),
    [
        pytest.param(chat(USER), "hello", id="user"),
        pytest.param(chat({"role": "system", "content": "be kind"}, USER), "hello", id="system and user"),
        pytest.param(chat({"role": "developer", "content": "x"}, USER), "hello", id="developer and user"),
        pytest.param(
            chat({"role": "user", "content": [{"type": "text", "text": " hi "}]}), "hi", id="one text part"
        ),
        pytest.param(chat(USER, n=1), "hello", id="n is 1"),
        pytest.param(completion("once"), "once", id="prompt"),
        pytest.param(completion(["once"]), "once", id="list of one prompt"),
    ],
)
def test_single_turns_of_text_ask_a_question(asked: Exchange, text: str) -> None:
    """The last user text, without white space around it."""
    found = similar_question(asked)
    assert found is not None
    assert found.text == text
    assert len(found.partition) == 32


@pytest.mark.parametrize(
    "asked",
    [
        pytest.param(chat({"role": ["system"], "content": "x"}, USER), id="a role that is none"),
        pytest.param(chat(USER, n=2), id="two answers"),
        pytest.param(chat(USER, n=True), id="true is no number"),
        pytest.param(chat(USER, {"role": "assistant", "content": "hi"}, USER), id="second turn"),
        pytest.param(chat(USER, USER), id="two user messages"),
        pytest.param(chat(USER, {"role": "system", "content": "x"}), id="user is not last"),
        pytest.param(chat({"role": "assistant", "content": "hi"}), id="no user"),
        pytest.param(chat({"role": "user", "content": "  "}), id="blank"),
        pytest.param(chat({"role": "user", "content": "x" * (MAX_CHARS + 1)}), id="long"),
        pytest.param(chat({"role": "user", "content": None}), id="no content"),
        pytest.param(chat({"role": "user", "content": []}), id="no parts"),
        pytest.param(
            chat({"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}), id="image"
        ),
        pytest.param(
            chat({"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}),
            id="two parts",
        ),
        pytest.param(chat("hello"), id="message is a text"),
        pytest.param(chat(messages="hello"), id="messages is a text"),
        pytest.param(chat(messages=None), id="no messages"),
        pytest.param(completion("once", echo=True), id="echo"),
        pytest.param(completion(["one", "two"]), id="two prompts"),
        pytest.param(completion([1, 2]), id="tokens"),
        pytest.param(chat(path="/v1/embeddings", messages=None, input="x"), id="embeddings"),
    ],
)
def test_everything_else_asks_none(asked: Exchange) -> None:
    """Only the very same request shares its answer."""
    assert similar_question(asked) is None


def partition(asked: Exchange) -> bytes:
    """Return the partition of an exchange that asks a question."""
    found = similar_question(asked)
    assert found is not None
    return found.partition


def test_another_text_is_of_the_same_partition() -> None:
    """And so is a stream, and what says nothing about the answer."""
    other = {"role": "user", "content": "something else"}
    assert partition(chat(USER)) == partition(chat(other)) == partition(chat(other, stream=True, user="u"))
    assert partition(completion("a")) == partition(completion("b"))


SYSTEM = {"role": "system", "content": "be kind"}


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(chat(SYSTEM, USER), id="system message"),
        pytest.param(chat(USER, temperature=0.5), id="parameter"),
        pytest.param(chat(USER, tools=[{"type": "function", "function": {"name": "f"}}]), id="tools"),
        pytest.param(chat(USER, response_format={"type": "json_object"}), id="form of the answer"),
        pytest.param(chat(USER, invented=1), id="a field that nobody knows"),
        pytest.param(chat({"role": "user", "content": "hello", "name": "bob"}), id="name of the user"),
        pytest.param(completion("hello"), id="operation"),
    ],
)
def test_whatever_the_answer_depends_on_parts(other: Exchange) -> None:
    """Every message, every field."""
    assert partition(other) != partition(chat(USER))


def test_tenants_and_versions_are_parted() -> None:
    """Nobody's question is found by another tenant, nor by another version."""
    mine, theirs, later = chat(USER), chat(USER), chat(USER)
    theirs.tenant = "tenant:other"
    later.version = Version("v2", "b", "m")
    assert len({partition(mine), partition(theirs), partition(later)}) == 3


def test_the_request_is_not_touched() -> None:
    """It goes to the provider afterwards."""
    asked = chat(SYSTEM, {"role": "user", "content": [{"type": "text", "text": "hi"}]})
    before = repr(asked.parsed.document)
    similar_question(asked)
    assert repr(asked.parsed.document) == before
