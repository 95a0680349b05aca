"""Mixes: the endless sequence of calls, from one prompt or from a file of request bodies (pure).

Every call of a prompt is a different question unless it says otherwise: a cache that answers the same
question a thousand times would flatter the figures. `{n}` in the prompt stands for the call's number.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count, cycle, islice
from typing import Any, Final, Protocol

import orjson

from control_plane.tools.load.calls import Call, Operation, asking, call, operation_of

NUMBER: Final = "{n}"
DEFAULT_PROMPT: Final = "Question {n}: name one thing that floats, and say why in a sentence."


class WrongMix(ValueError):
    """A file holds what is no request; the message names the line."""


class Mix(Protocol):
    """Where calls come from. It is sent to other processes, so it can be pickled."""

    def calls(self, first: int, step: int = 1) -> Iterator[Call]:
        """Yield calls without end: those numbered `first`, `first + step` and so on."""


@dataclass(frozen=True, slots=True)
class PromptMix:
    """One question, numbered."""

    operation: Operation
    model: str
    prompt: str = DEFAULT_PROMPT
    stream: bool = False
    max_tokens: int | None = None

    def calls(self, first: int, step: int = 1) -> Iterator[Call]:
        """Yield the question with each number."""
        for number in count(first, step):
            text = self.prompt.replace(NUMBER, str(number))
            body = asking(self.operation, self.model, text, max_tokens=self.max_tokens)
            yield call(self.operation, {**body, "stream": True} if self.stream else body)


@dataclass(frozen=True, slots=True)
class FileMix:
    """Bodies of a file, in turn; a line that stands there twice is sent twice as often."""

    made: tuple[Call, ...]

    def calls(self, first: int, step: int = 1) -> Iterator[Call]:
        """Yield the calls again and again, beginning with the one at `first`."""
        return islice(cycle(self.made), first % len(self.made), None, step)


def read_mix(text: bytes, model: str, *, stream: bool = False) -> FileMix:
    """Return the mix of a JSONL file: one request body a line.

    `model` is set where a body names none; `stream` asks for a stream wherever there can be one.

    Raises:
        WrongMix: a line is no JSON object, or no request that is known here; or there is none.
    """
    made = tuple(
        _line(number, line, model, stream) for number, line in enumerate(text.splitlines(), 1) if line.strip()
    )
    if not made:
        raise WrongMix("holds no request; write one JSON body a line")
    return FileMix(made)


def _line(number: int, line: bytes, model: str, stream: bool) -> Call:
    try:
        body: Any = orjson.loads(line)
    except orjson.JSONDecodeError:
        raise WrongMix(f"line {number} is no JSON; write one request body a line") from None
    operation = operation_of(body) if isinstance(body, dict) else None
    if operation is None:
        raise WrongMix(f"line {number} has none of messages, input and prompt; write one request body a line")
    body.setdefault("model", model)
    if stream and operation is not Operation.EMBEDDINGS:
        body["stream"] = True
    return call(operation, body)
