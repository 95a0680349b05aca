"""Calls and base URLs."""

import orjson
import pytest

from control_plane.tools.load.calls import (
    Operation,
    WrongUrl,
    asking,
    base_url,
    call,
    guessed_operation,
    operation_of,
)


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("http://127.0.0.1:10000/v1", "http://127.0.0.1:10000/v1"),
        ("http://127.0.0.1:10000", "http://127.0.0.1:10000/v1"),
        (" https://api.example.com/v1/ ", "https://api.example.com/v1"),
        ("https://h/openai/v1/chat/completions", "https://h/openai/v1"),
        ("https://h/v1/embeddings", "https://h/v1"),
        ("http://[::1]:8001/v1", "http://[::1]:8001/v1"),
    ],
)
def test_a_base_url_is_understood(text: str, url: str) -> None:
    """Without a path it gets `/v1`; the path of an operation is cut off."""
    assert base_url(text) == url


@pytest.mark.parametrize(
    "text",
    [
        "",
        "127.0.0.1:10000",
        "ftp://h/v1",
        "http://",
        "http://h:0",
        "http://h:x/v1",
        "http://h/v 1",
        "http://h/\n",
    ],
)
def test_what_cannot_be_called_is_told(text: str) -> None:
    """The message says what to write."""
    with pytest.raises(WrongUrl, match="is not http://HOST:PORT/v1"):
        base_url(text)


@pytest.mark.parametrize("text", ["http://u:secret@h/v1", "http://h/v1?key=secret", "http://h/v1#secret"])
def test_a_secret_in_a_url_is_refused(text: str) -> None:
    """It would show in every report; the message does not repeat it."""
    with pytest.raises(WrongUrl) as told:
        base_url(text)
    assert "secret" not in str(told.value)


@pytest.mark.parametrize(
    ("operation", "field"),
    [(Operation.CHAT, "messages"), (Operation.COMPLETIONS, "prompt"), (Operation.EMBEDDINGS, "input")],
)
def test_each_operation_asks_in_its_own_field(operation: Operation, field: str) -> None:
    """A bound on the answer is left out where there is none to write."""
    body = asking(operation, "m", "hello", max_tokens=5)
    assert field in body
    assert ("max_tokens" in body) is (operation is not Operation.EMBEDDINGS)
    assert operation_of(body) is operation


def test_a_call_knows_whether_it_streams() -> None:
    """By the body it sends."""
    body = {**asking(Operation.CHAT, "m", "hello"), "stream": True}
    made = call(Operation.CHAT, body, questions=3)
    assert (made.stream, made.questions, orjson.loads(made.content)) == (True, 3, body)
    assert not call(Operation.CHAT, asking(Operation.CHAT, "m", "hello")).stream


def test_a_models_name_tells_what_it_is_for() -> None:
    """Unless the user says otherwise."""
    assert guessed_operation("text-embedding-3-small") is Operation.EMBEDDINGS
    assert guessed_operation("gpt-4o") is Operation.CHAT
    assert operation_of({"model": "m"}) is None
