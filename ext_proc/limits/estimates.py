"""What a call will use, told before it is made: learned for each Model from what calls used (pure).

The prompt is its bytes times the tokens that a byte of this Model's requests was on average. The output is a
high quantile of what answers took, never more than the request allows. Before anything is learned the guess
is high: too much is given back when the call is done, too little would let all first calls pass at once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from ext_proc.openai.paths import Operation
from ext_proc.openai.usage import BYTES_PER_TOKEN, Usage

UNLEARNED_OUTPUT: Final = 1024
LEARNED_FROM: Final = 8
REMEMBERED_ANSWERS: Final = 64
QUANTILE: Final = 0.9
FEW: Final = 20
# An old request counts half after so many newer ones.
DECAY: Final = 0.5 ** (1 / 64)
MOST_PER_BYTE: Final = 4.0
MODELS: Final = 1024
MAX_CHOICES: Final = 128


class Estimate(NamedTuple):
    """Tokens of one call that is still to be made.

    `output` is what it will hardly exceed, `most_output` what it may take at worst, `choices` how many
    answers it asks for.
    """

    prompt: int
    output: int
    most_output: int
    choices: int = 1

    def claim(self, limit: int) -> int:
        """Return what to reserve of `limit`.

        Where many calls share a limit, those that take more than expected are made up for by the others. A
        limit that few fill is reserved by the worst case, or a handful at once would overrun it.
        """
        most = self.prompt + self.most_output
        tokens = most if most * FEW > limit else self.prompt + self.output
        return tokens if tokens <= limit else limit


NOTHING: Final = Estimate(0, 0, 0)


@dataclass(slots=True)
class _Learned:
    tokens: float = 0.0
    bytes: float = 0.0
    outputs: deque[int] = field(default_factory=lambda: deque(maxlen=REMEMBERED_ANSWERS))
    answers: int = 0
    quantile: int | None = None
    most: int = UNLEARNED_OUTPUT


class Estimates:
    """What is learned of each Model, by its name."""

    def __init__(self) -> None:
        self._models: dict[str, _Learned] = {}

    def estimate(
        self, model: str, operation: Operation, document: Mapping[str, Any], body_bytes: int
    ) -> Estimate:
        """Return what the request `document`, written in `body_bytes` bytes, will use."""
        learned = self._models.get(model)
        prompt = round(body_bytes * _per_byte(learned)) or 1
        if operation is Operation.EMBEDDINGS:
            return Estimate(prompt, 0, 0)
        choices = _whole(document.get("n"), MAX_CHOICES) or 1
        cap = _whole(document.get("max_tokens"))
        other = _whole(document.get("max_completion_tokens"))
        if other is not None:
            cap = other if cap is None else min(cap, other)
        most = cap if cap is not None else UNLEARNED_OUTPUT
        output = most
        if learned is not None and learned.quantile is not None:
            if cap is None:
                most = learned.most
            output = min(learned.quantile, most)
        return Estimate(prompt, output * choices, most * choices, choices)

    def per_byte(self, model: str) -> float:
        """Return the tokens that a byte of the Model's requests is."""
        return _per_byte(self._models.get(model))

    def learn(self, model: str, body_bytes: int, usage: Usage, choices: int = 1) -> None:
        """Take notice of what a call used."""
        learned = self._models.get(model)
        if learned is None:
            if len(self._models) >= MODELS:
                self._models.clear()
            learned = self._models[model] = _Learned()
        learned.tokens = learned.tokens * DECAY + usage.prompt_tokens
        learned.bytes = learned.bytes * DECAY + body_bytes
        learned.outputs.append(-(-usage.completion_tokens // max(choices, 1)))
        learned.answers += 1
        if learned.answers % LEARNED_FROM == 0:
            ordered = sorted(learned.outputs)
            learned.quantile = max(ordered[int(QUANTILE * (len(ordered) - 1))], 1)
            learned.most = max(ordered[-1], UNLEARNED_OUTPUT)


def _per_byte(learned: _Learned | None) -> float:
    if learned is None or not learned.bytes:
        return 1 / BYTES_PER_TOKEN
    return min(learned.tokens / learned.bytes, MOST_PER_BYTE)


def _whole(value: object, at_most: int | None = None) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 1 <= value <= 1e9:
        return None
    return int(value) if at_most is None else min(int(value), at_most)
