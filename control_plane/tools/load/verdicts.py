"""Verdicts on replies (pure): good, or why not; the tokens it says it used.

A 200 counts only when it holds as many answers as questions were asked, in their order: `choices` or `data`
by index. https://platform.openai.com/docs/api-reference.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import orjson

from control_plane.tools.load.calls import Call, Operation

# Why a call failed that has no status, or one of 200 that is no answer.
CONNECT: Final = "connect"
TIMEOUT: Final = "timeout"
BROKEN: Final = "broken"
NO_ANSWER: Final = "no-answer"
CUT: Final = "cut"


@dataclass(frozen=True, slots=True)
class Verdict:
    """`result` is the status, or one of the words above; tokens are 0 where the answer names none."""

    result: str
    good: bool
    prompt_tokens: int = 0
    completion_tokens: int = 0


def failed(result: str) -> Verdict:
    """Return the verdict on a call that brought no answer."""
    return Verdict(result, good=False)


def judged(call: Call, status: int, body: bytes) -> Verdict:
    """Return the verdict on a whole answer."""
    if status != 200:
        return failed(str(status))
    try:
        document: Any = orjson.loads(body)
    except orjson.JSONDecodeError:
        return failed(NO_ANSWER)
    if not isinstance(document, dict) or not _complete(call, document):
        return failed(NO_ANSWER)
    return Verdict("200", True, *used(document.get("usage")))


def used(usage: object) -> tuple[int, int]:
    """Return prompt and completion tokens of a `usage` object."""
    if not isinstance(usage, Mapping):
        return 0, 0
    return _count(usage.get("prompt_tokens")), _count(usage.get("completion_tokens"))


def _complete(call: Call, document: Mapping[str, Any]) -> bool:
    items = document.get("data" if call.operation is Operation.EMBEDDINGS else "choices")
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        return False
    if call.questions == 1:
        return bool(items)
    return [item.get("index") for item in items] == list(range(call.questions))


def _count(value: object) -> int:
    return value if type(value) is int and value > 0 else 0
