"""Whole answers: OpenAI's JSON objects for completions, embeddings and models (pure)."""

from __future__ import annotations

import base64
import sys
from array import array
from dataclasses import dataclass
from typing import Any

import orjson

from control_plane.tools.provider.calls import EmbeddingCall, TextCall
from control_plane.tools.provider.compose import Completion
from control_plane.tools.provider.words import count_tokens, vector

FINGERPRINT = "fp_simulated"
Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Stamp:
    """What differs between two answers to one request: `id` without its prefix, and Unix seconds."""

    id: str
    created: int


def usage(call: TextCall, completions: tuple[Completion, ...]) -> Json:
    """Return the usage object: what was read and what was produced."""
    produced = sum(len(completion.pieces) for completion in completions)
    return {
        "prompt_tokens": call.prompt_tokens,
        "completion_tokens": produced,
        "total_tokens": call.prompt_tokens + produced,
        "prompt_tokens_details": {"cached_tokens": 0, "audio_tokens": 0},
        "completion_tokens_details": {
            "reasoning_tokens": 0,
            "audio_tokens": 0,
            "accepted_prediction_tokens": 0,
            "rejected_prediction_tokens": 0,
        },
    }


def chat(call: TextCall, completions: tuple[Completion, ...], stamp: Stamp) -> bytes:
    """Return a `chat.completion`; with a list of conversations, choice i answers conversation i."""
    return orjson.dumps(
        {
            "id": f"chatcmpl-{stamp.id}",
            "object": "chat.completion",
            "created": stamp.created,
            "model": call.model,
            "choices": [
                {
                    "index": index,
                    "message": _message(completion),
                    "logprobs": None,
                    "finish_reason": completion.finish_reason,
                }
                for index, completion in enumerate(completions)
            ],
            "usage": usage(call, completions),
            "service_tier": "default",
            "system_fingerprint": FINGERPRINT,
        }
    )


def completion(call: TextCall, completions: tuple[Completion, ...], stamp: Stamp) -> bytes:
    """Return a `text_completion`; choice `p * n + i` is answer i to prompt p."""
    return orjson.dumps(
        {
            "id": f"cmpl-{stamp.id}",
            "object": "text_completion",
            "created": stamp.created,
            "model": call.model,
            "choices": [
                {
                    "index": index,
                    "text": answer.text,
                    "logprobs": None,
                    "finish_reason": answer.finish_reason,
                }
                for index, answer in enumerate(completions)
            ],
            "usage": usage(call, completions),
            "system_fingerprint": FINGERPRINT,
        }
    )


def embeddings(call: EmbeddingCall, seed: int) -> bytes:
    """Return the list of embeddings, in the order of the inputs."""
    data = [
        {"object": "embedding", "index": index, "embedding": _encoded(call, text, seed)}
        for index, text in enumerate(call.inputs)
    ]
    read = embedding_tokens(call)
    used = {"prompt_tokens": read, "total_tokens": read}
    return orjson.dumps({"object": "list", "data": data, "model": call.model, "usage": used})


def embedding_tokens(call: EmbeddingCall) -> int:
    """Return the estimated length of all inputs."""
    return sum(map(count_tokens, call.inputs))


def model(name: str) -> Json:
    """Return one `model` object."""
    return {"id": name, "object": "model", "created": 1_700_000_000, "owned_by": "simulated"}


def models(names: tuple[str, ...]) -> bytes:
    """Return the list of models."""
    return orjson.dumps({"object": "list", "data": [model(name) for name in names]})


def _message(completion: Completion) -> Json:
    if not completion.tool_name:
        return {"role": "assistant", "content": completion.text, "refusal": None, "annotations": []}
    function = {"name": completion.tool_name, "arguments": completion.text}
    tool_call = {"id": completion.tool_call_id, "type": "function", "function": function}
    return {
        "role": "assistant",
        "content": None,
        "refusal": None,
        "annotations": [],
        "tool_calls": [tool_call],
    }


def _encoded(call: EmbeddingCall, text: str, seed: int) -> object:
    values = vector(seed, call.model, text, call.dimensions)
    if call.encoding == "float":
        return values.tolist()
    return base64.b64encode(_little_endian(values)).decode()


def _little_endian(values: array[float]) -> bytes:
    if sys.byteorder == "big":
        values.byteswap()
    return values.tobytes()
