"""Whole answers have OpenAI's form."""

from __future__ import annotations

import base64
import json
from array import array

from control_plane.tools.provider import answers
from control_plane.tools.provider.answers import Stamp
from control_plane.tools.provider.calls import EmbeddingCall
from control_plane.tools.provider.compose import compose
from control_plane.tools.provider.settings import ProviderSettings
from tests.unit.control_plane.tools.provider.requests import chat, completion

SETTINGS = ProviderSettings()
STAMP = Stamp("1", 7)


def test_chat() -> None:
    """A chat answer's usage is the tokens of prompt and choices, and n choices are numbered."""
    call = chat(n=2)
    completions = compose(call, SETTINGS)
    body = json.loads(answers.chat(call, completions, STAMP))
    assert (body["object"], body["id"], body["created"], body["model"]) == (
        "chat.completion",
        "chatcmpl-1",
        7,
        "m",
    )
    assert [choice["index"] for choice in body["choices"]] == [0, 1]
    assert [choice["message"]["content"] for choice in body["choices"]] == [each.text for each in completions]
    produced = sum(len(each.pieces) for each in completions)
    assert body["usage"]["completion_tokens"] == produced
    assert body["usage"]["total_tokens"] == call.prompt_tokens + produced


def test_tool_call() -> None:
    """A tool call has no content, and its arguments are text."""
    call = chat(
        tools=[{"type": "function", "function": {"name": "f", "parameters": {"properties": {"a": {}}}}}],
        tool_choice="required",
    )
    body = json.loads(answers.chat(call, compose(call, SETTINGS), STAMP))
    message = body["choices"][0]["message"]
    assert message["content"] is None
    assert message["tool_calls"][0]["function"]["name"] == "f"
    assert set(json.loads(message["tool_calls"][0]["function"]["arguments"])) == {"a"}


def test_completion() -> None:
    """A completions answer holds texts, in the order of the prompts."""
    call = completion(["a", "b"])
    completions = compose(call, SETTINGS)
    body = json.loads(answers.completion(call, completions, STAMP))
    assert body["object"] == "text_completion"
    assert [choice["text"] for choice in body["choices"]] == [each.text for each in completions]


def test_embeddings_in_both_encodings() -> None:
    """Float and base64 carry the same 32-bit numbers, one vector an input, in order."""
    texts = ("a", "b")
    as_float = json.loads(answers.embeddings(EmbeddingCall("m", texts, 8, "float"), 0))
    as_base64 = json.loads(answers.embeddings(EmbeddingCall("m", texts, 8, "base64"), 0))
    for one, other in zip(as_float["data"], as_base64["data"], strict=True):
        decoded = array("f", base64.b64decode(other["embedding"]))
        assert one["embedding"] == decoded.tolist()
        assert one["index"] == other["index"]
    assert as_float["data"][0]["embedding"] != as_float["data"][1]["embedding"]
    assert as_float["usage"] == {"prompt_tokens": 2, "total_tokens": 2}


def test_models() -> None:
    """The list of models and a single model have the same objects."""
    listed = json.loads(answers.models(("a", "b")))
    assert listed["object"] == "list"
    assert listed["data"][0] == answers.model("a")
