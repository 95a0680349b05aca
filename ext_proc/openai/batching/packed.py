"""Independent questions packed into one chat, answered as structured output by id.

Ids are drawn at random for each call, so that no question can name a neighbour's; each question is a JSON
text, so that nothing in it ends it. An id that is missing, doubled or whose answer is no text is asked again
alone. https://platform.openai.com/docs/guides/structured-outputs
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import orjson

from ext_proc.openai.batching.inputs import Input, Mismatch, Parts, Share
from ext_proc.openai.batching.native import composed, read_answer
from ext_proc.openai.batching.shares import tokens_shared_out
from ext_proc.openai.completions import last_user_text
from ext_proc.openai.requests import Request
from ext_proc.openai.usage import estimate_tokens, parse_usage

# With any of these an answer is no plain text, or could not be told from a neighbour's.
ALONE_WITH: Final = frozenset(
    (
        "audio",
        "function_call",
        "functions",
        "logit_bias",
        "logprobs",
        "modalities",
        "parallel_tool_calls",
        "prediction",
        "response_format",
        "seed",
        "stop",
        "tool_choice",
        "tools",
        "top_logprobs",
        "web_search_options",
    )
)
TASK: Final = (
    "You are given several independent questions as a JSON list of objects with an id and a question. Answer"
    " each of them by itself, as if it were the only one: nothing in a question says anything about another"
    " one. Return an object whose answers are a list of objects, each with the id of its question, exactly as"
    " it was given, and the answer."
)
_SCHEMA: Final = {
    "type": "json_schema",
    "json_schema": {
        "name": "answers",
        "strict": True,
        "schema": {
            "type": "object",
            "properties": {
                "answers": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "properties": {"id": {"type": "string"}, "answer": {"type": "string"}},
                        "required": ["id", "answer"],
                        "additionalProperties": False,
                    },
                }
            },
            "required": ["answers"],
            "additionalProperties": False,
        },
    },
}
_LIMITS: Final = ("max_tokens", "max_completion_tokens")


class Packed:
    """Single-turn questions of equal instructions. `draw` returns an id that nobody can guess."""

    def __init__(self, draw: Callable[[], str]) -> None:
        self._draw = draw

    def take_apart(self, request: Request) -> Parts | None:
        """See `Codec`. Text only: at most one instruction, then one user message; no tools, one answer."""
        document = request.document
        text = last_user_text(document)
        if text is None or document.get("n") not in (None, 1):
            return None
        if any(document.get(name) is not None for name in ALONE_WITH):
            return None
        messages = document["messages"]
        instruction = _instruction(messages[:-1])
        if instruction is None or set(messages[-1]) - {"role", "content"}:
            return None
        rest = {name: value for name, value in document.items() if name != "messages"}
        tokens = max(estimate_tokens(len(text.encode("utf-8", "surrogatepass"))), 1)
        return Parts((Input(text, tokens),), {**rest, "messages": instruction})

    def put_together(self, parts: Parts, inputs: Sequence[Input]) -> dict[str, Any]:
        """See `Codec`. What limits the length of one answer limits that of all together."""
        rest = dict(parts.rest)
        instruction = rest.pop("messages")
        for name in _LIMITS:
            if rest.get(name).__class__ is int:
                rest[name] *= len(inputs)
        questions = [{"id": self._draw(), "question": one.value} for one in inputs]
        written = orjson.dumps(questions).decode()
        return {
            **rest,
            "messages": [
                *instruction,
                {"role": "system", "content": TASK},
                {"role": "user", "content": written},
            ],
            "response_format": _SCHEMA,
        }

    def deal_out(
        self, parts: Parts, inputs: Sequence[Input], sent: Mapping[str, Any], body: bytes
    ) -> Sequence[Share | None]:
        """See `Codec`."""
        document = read_answer(body)
        choice = _only_choice(document.pop("choices", None))
        ids = [question["id"] for question in orjson.loads(sent["messages"][-1]["content"])]
        answers = _answers(choice["message"].get("content"), ids)
        usage = parse_usage(document)
        document.pop("usage", None)
        said = [len(answer or "") for answer in answers]
        shared = tokens_shared_out(usage, [one.tokens for one in inputs], said)
        return [
            None if answer is None else Share(document, (_entry(choice, answer),), tokens)
            for answer, tokens in zip(answers, shared, strict=True)
        ]

    def compose(self, shares: Sequence[Share]) -> bytes:
        """See `Codec`."""
        return composed("choices", shares)


def _instruction(messages: Sequence[object]) -> list[dict[str, Any]] | None:
    """Return the messages before the question when they are at most one instruction in text."""
    if len(messages) > 1:
        return None
    for message in messages:
        if not isinstance(message, dict) or message.get("role") not in ("system", "developer"):
            return None
        if not isinstance(message.get("content"), str):
            return None
    return [dict(message) for message in messages if isinstance(message, dict)]


def _only_choice(choices: object) -> dict[str, Any]:
    """Return the one choice, finished in order. Raises Mismatch."""
    choice = choices[0] if isinstance(choices, list) and len(choices) == 1 else None
    if not isinstance(choice, dict) or choice.get("finish_reason") != "stop":
        raise Mismatch("the answer is not one choice that came to its end")
    if not isinstance(choice.get("message"), dict):
        raise Mismatch("the answer has no message")
    return choice


def _answers(content: object, ids: Sequence[str]) -> list[str | None]:
    """Return the answer to each id, None where there is not exactly one. Raises Mismatch."""
    try:
        document = orjson.loads(content) if isinstance(content, str) else None
    except ValueError:
        document = None
    answers = document.get("answers") if isinstance(document, dict) else None
    if not isinstance(answers, list):
        raise Mismatch("the answer is not the structure that was asked for")
    found: dict[str, list[object]] = {one: [] for one in ids}
    for entry in answers:
        name = entry.get("id") if isinstance(entry, dict) else None
        if isinstance(name, str) and name in found:
            found[name].append(entry.get("answer"))
    return [
        given[0] if len(given) == 1 and isinstance(given[0], str) and given[0] else None
        for given in found.values()
    ]


def _entry(choice: Mapping[str, Any], answer: str) -> dict[str, Any]:
    message = {"role": "assistant", "content": answer, "refusal": None}
    return {"index": 0, "message": message, "logprobs": None, "finish_reason": choice["finish_reason"]}
