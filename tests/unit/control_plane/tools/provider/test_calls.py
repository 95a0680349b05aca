"""Bodies become calls, or OpenAI's 400."""

from __future__ import annotations

from typing import Any

import pytest

from control_plane.tools.provider.calls import parse_chat, parse_embedding
from control_plane.tools.provider.errors import ApiError
from tests.unit.control_plane.tools.provider.requests import chat, completion

TOOLS = [
    {"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}},
    {"type": "function", "function": {"name": "clock"}},
]
USER = {"role": "user", "content": "hi"}


@pytest.mark.parametrize(
    ("more", "param"),
    [
        pytest.param({"messages": None}, "messages", id="no-messages"),
        pytest.param({"messages": "hi"}, "messages", id="text-for-messages"),
        pytest.param({"messages": []}, "messages", id="empty-messages"),
        pytest.param({"messages": [None]}, "messages[0]", id="null-message"),
        pytest.param({"messages": [{"content": "x"}]}, "messages[0].role", id="no-role"),
        pytest.param({"messages": [{"role": 1}]}, "messages[0].role", id="number-for-role"),
        pytest.param({"messages": [{"role": "user", "content": 5}]}, "messages[0].content", id="content"),
        pytest.param({"messages": [[USER], []]}, "messages[0]", id="empty-conversation"),
        pytest.param({"messages": [[USER]], "stream": True}, "stream", id="streamed-conversations"),
        pytest.param({"n": 0}, "n", id="n"),
        pytest.param({"temperature": 3}, "temperature", id="temperature"),
        pytest.param({"max_tokens": "5"}, "max_tokens", id="max_tokens"),
        pytest.param({"max_completion_tokens": 0}, "max_completion_tokens", id="max_completion_tokens"),
        pytest.param({"stream": "yes"}, "stream", id="stream"),
        pytest.param({"stream_options": {"include_usage": True}}, "stream_options", id="options-no-stream"),
        pytest.param({"tool_choice": "required"}, "tool_choice", id="choice-without-tools"),
        pytest.param({"tools": TOOLS, "tool_choice": 5}, "tool_choice", id="odd-choice"),
        pytest.param({"tools": {}}, "tools", id="tools-no-array"),
        pytest.param({"tools": [{}]}, "tools[0].function", id="tool-without-function"),
        pytest.param({"response_format": {"type": "xml"}}, "response_format.type", id="format"),
    ],
)
def test_chat_refused(more: dict[str, Any], param: str) -> None:
    """A wrong chat request is a 400 that names the parameter."""
    with pytest.raises(ApiError) as caught:
        chat(**more)
    assert (caught.value.status, caught.value.param) == (400, param)


def test_deep_nesting() -> None:
    """A hundred levels just work; what the serializer cannot write is a 400, not a crash."""
    for depth, fits in ((100, True), (900, False)):
        value: object = 1
        for _ in range(depth):
            value = [value]
        if fits:
            chat(metadata2=value)
        else:
            with pytest.raises(ApiError):
                chat(metadata2=value)


def test_what_decides_the_answer() -> None:
    """Transport fields and key order do not change an answer; anything else does, unknown fields too."""
    plain = chat().prompts[0].source
    same: list[dict[str, Any]] = [{"stream": True}, {"user": "u"}, {"metadata": {"a": "b"}}, {"store": True}]
    other: list[dict[str, Any]] = [{"temperature": 0.5}, {"seed": 1}, {"invented": 1}]
    assert all(chat(**more).prompts[0].source == plain for more in same)
    assert len({plain, *(chat(**more).prompts[0].source for more in other)}) == 4
    assert chat(seed=1).prompts[0].source != plain
    one, two = ({"a": 1, "b": 2}, {"b": 2, "a": 1})
    assert chat(x=one).prompts[0].source == chat(x=two).prompts[0].source


def test_a_conversation_in_a_list_is_answered_as_alone() -> None:
    """Each of several conversations has the source that it has in a call of its own."""
    several = chat(messages=[[USER], [{"role": "user", "content": "you"}]])
    assert [prompt.source for prompt in several.prompts] == [
        chat().prompts[0].source,
        chat("you").prompts[0].source,
    ]


def test_conversations_are_an_option() -> None:
    """Without the option a list of lists is refused, as OpenAI does; with it, their number may be bounded."""
    body = {"model": "m", "messages": [[USER], [USER]]}
    for allowed, most in ((False, 0), (True, 1)):
        with pytest.raises(ApiError):
            parse_chat(body, path_model="", seed=0, conversations=allowed, most=most)


def test_prompt_tokens() -> None:
    """Images count, parts' texts are joined, and the last user message is kept for echoing."""
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    call = chat([{"type": "text", "text": "what is this"}, image])
    assert call.prompt_tokens == 3 + 4 + 3 + 85
    assert call.prompts[0].last_text == "what is this"


@pytest.mark.parametrize(
    ("choice", "name"),
    [
        (None, None),
        ("auto", None),
        ("none", None),
        ("required", "weather"),
        ({"type": "function", "function": {"name": "clock"}}, "clock"),
    ],
)
def test_tool_choice(choice: object, name: str | None) -> None:
    """A tool is called when the request demands it: the named one, else the first."""
    tool = chat(tools=TOOLS, tool_choice=choice).tool
    assert (tool.name if tool else None) == name


def test_an_unknown_tool_is_refused() -> None:
    """The named tool has to be among the tools."""
    with pytest.raises(ApiError, match="not found in 'tools'"):
        chat(tools=TOOLS, tool_choice={"type": "function", "function": {"name": "other"}})


@pytest.mark.parametrize(
    ("wanted", "schema"),
    [
        (None, None),
        ({"type": "text"}, None),
        ({"type": "json_object"}, {}),
        (
            {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "object"}}},
            {"type": "object"},
        ),
    ],
)
def test_response_format(wanted: object, schema: object) -> None:
    """JSON is answered when it is asked for."""
    assert chat(response_format=wanted).schema == schema


def test_either_token_limit() -> None:
    """The newer name of the limit wins over the older."""
    assert chat(max_tokens=5).max_tokens == 5
    assert chat(max_tokens=5, max_completion_tokens=6).max_tokens == 6


def test_completion() -> None:
    """Prompts may be an array; the default limit is OpenAI's 16 tokens."""
    call = completion(["a", "b"], n=2)
    assert (len(call.prompts), call.n, call.max_tokens) == (2, 2, 16)
    assert completion("a", max_tokens=0).max_tokens == 0


def test_too_many_prompts() -> None:
    """An array of more than 2,048 is refused."""
    with pytest.raises(ApiError):
        completion(["a"] * 2049)


def test_embedding() -> None:
    """Dimensions default to the model's, and cannot exceed them."""
    small = parse_embedding({"model": "text-embedding-3-small", "input": "a"}, path_model="")
    large = parse_embedding({"model": "text-embedding-3-large", "input": ["a", "b"]}, path_model="")
    assert (small.dimensions, large.dimensions, len(large.inputs)) == (1536, 3072, 2)
    for wrong in ({"input": ""}, {"input": "a", "dimensions": 5000}, {"input": "a", "encoding_format": "x"}):
        with pytest.raises(ApiError):
            parse_embedding({"model": "m", **wrong}, path_model="")
