"""Streamed answers: the SSE events of a chat or completions call (pure).

https://html.spec.whatwg.org/multipage/server-sent-events.html and OpenAI's
https://platform.openai.com/docs/api-reference/chat-streaming. A stream is a sequence of *steps*; the events
of one step belong to the same token position of all choices and leave together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import zip_longest

import orjson

from control_plane.tools.provider.answers import FINGERPRINT, Json, Stamp, usage
from control_plane.tools.provider.calls import TextCall
from control_plane.tools.provider.compose import Completion

DONE = b"data: [DONE]\n\n"
Frame = Callable[[list[Json]], bytes]


def chat_steps(call: TextCall, completions: tuple[Completion, ...], stamp: Stamp) -> Iterator[list[bytes]]:
    """Yield each step's events: roles, then a token of every choice a step, then the end.

    The first step belongs to the first token's time, every further token step to one decode step more;
    the last step (finish chunks, usage, `[DONE]`) takes no time.
    """
    frame = _framer(call, f"chatcmpl-{stamp.id}", "chat.completion.chunk", stamp)
    first = [
        frame([_chat_choice(index, _opening(completion), None)])
        for index, completion in enumerate(completions)
    ]
    yield from _steps(
        first,
        completions,
        lambda index, piece: frame([_chat_choice(index, _delta(completions[index], piece), None)]),
    )
    end = [
        frame([_chat_choice(index, {}, completion.finish_reason)])
        for index, completion in enumerate(completions)
    ]
    yield [*end, *_closing(call, completions, f"chatcmpl-{stamp.id}", "chat.completion.chunk", stamp)]


def completion_steps(
    call: TextCall, completions: tuple[Completion, ...], stamp: Stamp
) -> Iterator[list[bytes]]:
    """Yield each step's events of a completions stream, as `chat_steps` does."""
    frame = _framer(call, f"cmpl-{stamp.id}", "text_completion", stamp)
    yield from _steps([], completions, lambda index, piece: frame([_text_choice(index, piece, None)]))
    end = [
        frame([_text_choice(index, "", completion.finish_reason)])
        for index, completion in enumerate(completions)
    ]
    yield [*end, *_closing(call, completions, f"cmpl-{stamp.id}", "text_completion", stamp)]


def event(value: object) -> bytes:
    """Return one SSE event that carries `value` as JSON."""
    return b"data: " + orjson.dumps(value) + b"\n\n"


def _steps(
    first: list[bytes], completions: tuple[Completion, ...], chunk: Callable[[int, str], bytes]
) -> Iterator[list[bytes]]:
    for row in zip_longest(*(completion.pieces for completion in completions)):
        tokens = [chunk(index, piece) for index, piece in enumerate(row) if piece is not None]
        yield [*first, *tokens]
        first = []
    if first:
        yield first


def _framer(call: TextCall, id: str, kind: str, stamp: Stamp) -> Frame:
    """Return a function that frames choices; all but the choices is written once, for it is a hot path."""
    frame: Json = {
        "id": id,
        "object": kind,
        "created": stamp.created,
        "model": call.model,
        "service_tier": "default",
        "system_fingerprint": FINGERPRINT,
    }
    head = b"data: " + orjson.dumps(frame)[:-1] + b',"choices":'
    tail = b',"usage":null}\n\n' if call.include_usage else b"}\n\n"
    return lambda choices: head + orjson.dumps(choices) + tail


def _closing(
    call: TextCall, completions: tuple[Completion, ...], id: str, kind: str, stamp: Stamp
) -> list[bytes]:
    if not call.include_usage:
        return [DONE]
    last = {
        "id": id,
        "object": kind,
        "created": stamp.created,
        "model": call.model,
        "service_tier": "default",
        "system_fingerprint": FINGERPRINT,
        "choices": [],
        "usage": usage(call, completions),
    }
    return [event(last), DONE]


def _chat_choice(index: int, delta: Json, finish_reason: str | None) -> Json:
    return {"index": index, "delta": delta, "logprobs": None, "finish_reason": finish_reason}


def _text_choice(index: int, text: str, finish_reason: str | None) -> Json:
    return {"index": index, "text": text, "logprobs": None, "finish_reason": finish_reason}


def _opening(completion: Completion) -> Json:
    if not completion.tool_name:
        return {"role": "assistant", "content": "", "refusal": None}
    function = {"name": completion.tool_name, "arguments": ""}
    tool_call = {"index": 0, "id": completion.tool_call_id, "type": "function", "function": function}
    return {"role": "assistant", "content": None, "refusal": None, "tool_calls": [tool_call]}


def _delta(completion: Completion, piece: str) -> Json:
    if not completion.tool_name:
        return {"content": piece}
    return {"tool_calls": [{"index": 0, "function": {"arguments": piece}}]}
