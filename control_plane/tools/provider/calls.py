"""Parsed requests: chat, completions, embeddings (pure; bodies in, calls out).

https://platform.openai.com/docs/api-reference. A field that is not known here is not looked at, but it is
part of `source`, so it changes the answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from control_plane.tools.provider import fields
from control_plane.tools.provider.errors import ApiError, missing, out_of_range, wrong_type
from control_plane.tools.provider.fields import Body
from control_plane.tools.provider.words import IMAGE_TOKENS, MESSAGE_TOKENS, count_tokens, digest

# These do not change what is answered, only how it is sent or filed.
NOT_IN_THE_ANSWER = frozenset({"stream", "stream_options", "user", "metadata", "store"})
MOST_TOKENS = 1_000_000
MOST_INPUTS = 2048
MOST_CHOICES = 128
DEFAULT_COMPLETION_TOKENS = 16


@dataclass(frozen=True, slots=True)
class Tool:
    """A function that the model may call; `parameters` is its JSON schema."""

    name: str
    parameters: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Prompt:
    """One thing to be answered: a conversation or a prompt.

    `source` is the digest its answer is made from, `tokens` its estimated length, `last_text` the last
    user message (what the echo mode repeats).
    """

    source: bytes
    tokens: int
    last_text: str


@dataclass(frozen=True, slots=True)
class TextCall:
    """A chat or completions request. Choice `p * n + i` is answer `i` to prompt `p`.

    `schema` is set when JSON is asked for ({} for any object). `echo` (completions) repeats the prompt.
    """

    model: str
    prompts: tuple[Prompt, ...]
    n: int
    stream: bool
    include_usage: bool
    temperature: float
    max_tokens: int | None
    stop: tuple[str, ...]
    tool: Tool | None = None
    schema: Mapping[str, Any] | None = None
    echo: bool = False

    @property
    def prompt_tokens(self) -> int:
        """The estimated length of all prompts."""
        return sum(prompt.tokens for prompt in self.prompts)


@dataclass(frozen=True, slots=True)
class EmbeddingCall:
    """An embeddings request; `encoding` is float or base64."""

    model: str
    inputs: tuple[str, ...]
    dimensions: int
    encoding: str


DIMENSIONS = {"text-embedding-3-large": 3072}
DEFAULT_DIMENSIONS = 1536


def parse_chat(body: Body, *, path_model: str, seed: int, conversations: bool, most: int) -> TextCall:
    """Return the chat call in `body`.

    With `conversations` on, `messages` may be a list of conversations, at most `most` of them (0: any).

    Raises:
        ApiError: 400, as OpenAI says it.
    """
    model = fields.model_name(body, path_model)
    messages = body.get("messages")
    if messages is None:
        raise missing("messages")
    if not isinstance(messages, list):
        raise wrong_type("messages", "an array of objects", messages)
    if not messages:
        raise ApiError(
            400,
            "Invalid 'messages': empty array. Expected an array with minimum length 1.",
            param="messages",
            code="empty_array",
        )
    several = conversations and all(isinstance(item, list) for item in messages)
    if several and most and len(messages) > most:
        raise out_of_range("messages", f"of at most {most} conversations")
    root = _source(body, "messages", seed)
    prompts = tuple(_conversation(item, root) for item in (messages if several else [messages]))
    stream = fields.flag(body, "stream")
    if several and stream:
        raise ApiError(400, "A list of conversations cannot be streamed.", param="stream")
    return TextCall(
        model=model,
        prompts=prompts,
        n=fields.whole(body, "n", 1, MOST_CHOICES) or 1,
        stream=stream,
        include_usage=_include_usage(body, stream),
        temperature=_temperature(body),
        max_tokens=_max_tokens(body),
        stop=fields.stops(body),
        tool=_tool(body),
        schema=_schema(body),
    )


def parse_completion(body: Body, *, path_model: str, seed: int) -> TextCall:
    """Return the completions call in `body`; `prompt` may be an array.

    Raises:
        ApiError: 400, as OpenAI says it.
    """
    model = fields.model_name(body, path_model)
    texts = fields.texts(body, "prompt")
    if len(texts) > MOST_INPUTS:
        raise out_of_range("prompt", f"with at most {MOST_INPUTS} items")
    root = _source(body, "prompt", seed)
    prompts = tuple(
        Prompt(digest(root, text.encode("utf-8", "surrogatepass")), count_tokens(text), text)
        for text in texts
    )
    stream = fields.flag(body, "stream")
    limit = fields.whole(body, "max_tokens", 0, MOST_TOKENS)
    return TextCall(
        model=model,
        prompts=prompts,
        n=fields.whole(body, "n", 1, MOST_CHOICES) or 1,
        stream=stream,
        include_usage=_include_usage(body, stream),
        temperature=_temperature(body),
        max_tokens=DEFAULT_COMPLETION_TOKENS if limit is None else limit,
        stop=fields.stops(body),
        echo=fields.flag(body, "echo"),
    )


def parse_embedding(body: Body, *, path_model: str) -> EmbeddingCall:
    """Return the embeddings call in `body`; `input` may be an array.

    Raises:
        ApiError: 400, as OpenAI says it.
    """
    model = fields.model_name(body, path_model)
    inputs = fields.texts(body, "input")
    if len(inputs) > MOST_INPUTS:
        raise out_of_range("input", f"with at most {MOST_INPUTS} items")
    if "" in inputs:
        raise ApiError(400, "'input' cannot be an empty string.", param="input")
    encoding = fields.text(body, "encoding_format", "float")
    if encoding not in {"float", "base64"}:
        raise out_of_range("encoding_format", "of 'float' or 'base64'")
    size = DIMENSIONS.get(model, DEFAULT_DIMENSIONS)
    return EmbeddingCall(model, inputs, fields.whole(body, "dimensions", 1, size) or size, encoding)


def _source(body: Body, without: str, seed: int) -> bytes:
    """Return the digest of all that decides the answer beside `without`; key order does not count."""
    kept = {name: body[name] for name in body if name not in NOT_IN_THE_ANSWER and name != without}
    return digest(str(seed).encode(), _canonical(kept))


def _canonical(value: object) -> bytes:
    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    except orjson.JSONEncodeError:
        # orjson reads 1,024 levels of nesting and writes 254.
        raise ApiError(400, "The request is nested too deeply.") from None


def _conversation(messages: object, root: bytes) -> Prompt:
    if not isinstance(messages, list) or not messages:
        raise wrong_type("messages[0]", "an array of objects", messages)
    tokens, last_text = 3, ""
    for place, message in enumerate(messages):
        if not isinstance(message, dict):
            raise wrong_type(f"messages[{place}]", "an object", message)
        role = message.get("role")
        if role is None:
            raise missing(f"messages[{place}].role")
        if not isinstance(role, str):
            raise wrong_type(f"messages[{place}].role", "a string", role)
        text, images = _content(message.get("content"), f"messages[{place}].content")
        tokens += count_tokens(text) + images * IMAGE_TOKENS + MESSAGE_TOKENS
        if role == "user":
            last_text = text
    return Prompt(digest(root, _canonical(messages)), tokens, last_text)


def _content(content: object, name: str) -> tuple[str, int]:
    """Return a message's text and its number of images."""
    if content is None:
        return "", 0
    if isinstance(content, str):
        return content, 0
    if not isinstance(content, list) or not all(isinstance(part, dict) for part in content):
        raise wrong_type(name, "a string or an array of objects", content)
    texts = [part["text"] for part in content if isinstance(part.get("text"), str)]
    images = sum(part.get("type") == "image_url" for part in content)
    return "\n".join(texts), images


def _temperature(body: Body) -> float:
    value = fields.number(body, "temperature", 0, 2)
    return 1.0 if value is None else value


def _max_tokens(body: Body) -> int | None:
    limit = fields.whole(body, "max_completion_tokens", 1, MOST_TOKENS)
    return fields.whole(body, "max_tokens", 1, MOST_TOKENS) if limit is None else limit


def _include_usage(body: Body, stream: bool) -> bool:
    options = fields.mapping(body, "stream_options")
    if options and not stream:
        raise ApiError(
            400,
            "The 'stream_options' parameter is only allowed when 'stream' is enabled.",
            param="stream_options",
        )
    return fields.flag(options, "include_usage")


def _tool(body: Body) -> Tool | None:
    """Return the tool that must be called, if the request demands one: the named one, else the first."""
    choice = body.get("tool_choice")
    tools = _tools(body)
    if choice is None or choice in ("auto", "none"):
        return None
    if not tools:
        raise ApiError(400, "'tool_choice' is only allowed when 'tools' are specified.", param="tool_choice")
    if choice == "required":
        return tools[0]
    function = choice.get("function") if isinstance(choice, dict) else None
    name = function.get("name") if isinstance(function, dict) else None
    if not isinstance(name, str):
        raise wrong_type("tool_choice", "'none', 'auto', 'required' or a named function", choice)
    for tool in tools:
        if tool.name == name:
            return tool
    raise ApiError(400, f"Tool choice '{name}' not found in 'tools' parameter.", param="tool_choice")


def _tools(body: Body) -> list[Tool]:
    value = body.get("tools")
    if value is None:
        return []
    if not isinstance(value, list):
        raise wrong_type("tools", "an array of objects", value)
    tools = []
    for place, item in enumerate(value):
        function = item.get("function") if isinstance(item, dict) else None
        if not isinstance(function, dict):
            raise missing(f"tools[{place}].function")
        name = fields.text(function, "name")
        if not name:
            raise missing(f"tools[{place}].function.name")
        tools.append(Tool(name, fields.mapping(function, "parameters")))
    return tools


def _schema(body: Body) -> Mapping[str, Any] | None:
    wanted = fields.mapping(body, "response_format")
    kind = fields.text(wanted, "type", "text")
    if kind == "text":
        return None
    if kind == "json_object":
        return {}
    if kind == "json_schema":
        return fields.mapping(fields.mapping(wanted, "json_schema"), "schema")
    raise out_of_range("response_format.type", "of 'text', 'json_object' or 'json_schema'")
