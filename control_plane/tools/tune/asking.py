"""Questions, and the calls that ask several of them at once (pure)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count, cycle
from typing import Any, Final

import orjson

from control_plane.tools.load.calls import Call, Operation, asking, call, operation_of
from control_plane.tools.load.mix import NUMBER, WrongMix
from control_plane.tools.tune.settings import Method

FIELDS: Final = {Operation.CHAT: "messages", Operation.COMPLETIONS: "prompt", Operation.EMBEDDINGS: "input"}
_REFUSED: Final = frozenset({"stream", "stream_options", "n"})


@dataclass(frozen=True, slots=True)
class Questions:
    """An endless supply: `parameters` are equal for all (only such questions share a batch), `items` what
    goes into the field that differs, in turn; `{n}` in their text becomes a number.
    """

    operation: Operation
    parameters: dict[str, Any]
    items: tuple[bytes, ...]

    def asked(self, first: int) -> Iterator[Any]:
        """Yield items, numbered from `first`."""
        for number, item in zip(count(first), cycle(self.items), strict=False):
            yield orjson.loads(item.replace(NUMBER.encode(), str(number).encode()))

    def single(self, item: Any) -> Call:
        """Return the call that asks one question."""
        return call(self.operation, {**self.parameters, FIELDS[self.operation]: item})

    def batch(self, items: Sequence[Any]) -> Call:
        """Return the call that asks several: a list of inputs, prompts or conversations."""
        body = {**self.parameters, FIELDS[self.operation]: list(items)}
        return call(self.operation, body, len(items))


def from_prompt(operation: Operation, model: str, prompt: str, max_tokens: int | None = None) -> Questions:
    """Return questions that differ by their number."""
    body = asking(operation, model, prompt, max_tokens=max_tokens)
    return Questions(operation, body, (orjson.dumps(body.pop(FIELDS[operation])),))


def from_file(text: bytes, model: str) -> Questions:
    """Return the questions of a JSONL file, one request body a line.

    Raises:
        WrongMix: a line is no request for one answer, or differs from the first in more than its question.
    """
    found: list[tuple[Operation, dict[str, Any], bytes]] = []
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip():
            found.append(_line(number, line, model))
            if found[-1][:2] != found[0][:2]:
                raise WrongMix(
                    f"line {number} has other parameters than the first; only equal ones share a call"
                )
    if not found:
        raise WrongMix("holds no request; write one JSON body a line")
    operation, parameters, _ = found[0]
    return Questions(operation, parameters, tuple(item for _, _, item in found))


def _line(number: int, line: bytes, model: str) -> tuple[Operation, dict[str, Any], bytes]:
    try:
        body: Any = orjson.loads(line)
    except orjson.JSONDecodeError:
        raise WrongMix(f"line {number} is no JSON; write one request body a line") from None
    operation = operation_of(body) if isinstance(body, dict) else None
    if operation is None:
        raise WrongMix(f"line {number} has none of messages, input and prompt; write one request body a line")
    if refused := sorted(_REFUSED & body.keys()):
        raise WrongMix(f"line {number} has {refused[0]}; such requests are not batched")
    item = body.pop(FIELDS[operation])
    if operation is not Operation.CHAT and not isinstance(item, str):
        raise WrongMix(f"line {number} asks several questions; write one a line")
    body.setdefault("model", model)
    return operation, body, orjson.dumps(item)


def natural_method(operation: Operation) -> Method:
    """Return how a provider takes several questions of that kind, if it does."""
    return Method.ARRAY if operation is Operation.CHAT else Method.NATIVE
