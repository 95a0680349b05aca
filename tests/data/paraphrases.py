"""Questions in many wordings, for what answers similar questions: templates × slots, English and Chinese.

`paraphrases.json` was written by hand: each intent has wordings that a provider would answer equally, and a
slot; an intent with one value in its slot is one fact. Neighbours are meant to be mistaken for each other:
another value, the opposite (`turn on`, `turn off`), the negation, the way back (`Rome to Paris`).
"""

from __future__ import annotations

import json
import random
from bisect import bisect
from dataclasses import dataclass
from functools import cache
from itertools import accumulate
from pathlib import Path
from typing import Any, Final

REWORDED: Final = 0.4
"""Which share of a trace's questions is put in words other than the fact's own."""


@dataclass(frozen=True, slots=True)
class Fact:
    """What is asked: all its wordings have one answer. The first one is its own."""

    language: str
    name: str
    wordings: tuple[str, ...]
    around: tuple[str, ...]

    @property
    def answers(self) -> tuple[str, ...]:
        """What the provider may say, in three wordings."""
        return (
            f"This is what is known of {self.name}.",
            f"Here is what we know of {self.name}: this.",
            f"Sure! This is what is known about {self.name}.",
        )


@dataclass(frozen=True, slots=True)
class Asked:
    """One question of a trace."""

    fact: Fact
    text: str


@cache
def facts(language: str) -> tuple[Fact, ...]:
    """Return every fact of `language` (`en`, `zh`)."""
    content: dict[str, Any] = json.loads(Path(__file__).with_suffix(".json").read_text("utf-8"))[language]
    return tuple(
        Fact(
            language,
            f"{intent['id']} {value}",
            tuple(wording.format(value) for wording in intent["wordings"]),
            tuple(content["around"]),
        )
        for intent in content["intents"]
        for value in content["slots"][intent["slot"]]
    )


def trace(length: int, draw: random.Random, *, exponent: float = 0.9) -> list[Asked]:
    """Return `length` questions in both languages, the facts drawn by Zipf's law with `exponent`."""
    known = [*facts("en"), *facts("zh")]
    draw.shuffle(known)
    reached = list(accumulate(1 / rank**exponent for rank in range(1, len(known) + 1)))
    questions = []
    for _ in range(length):
        fact = known[bisect(reached, draw.random() * reached[-1])]
        text = reworded(fact, draw) if draw.random() < REWORDED else fact.wordings[0]
        questions.append(Asked(fact, text))
    return questions


def reworded(fact: Fact, draw: random.Random) -> str:
    """Return the fact in other words than its own, as somebody might type them."""
    text = draw.choice(fact.wordings[1:])
    around = draw.choice(fact.around)
    if fact.language == "en" and around.endswith(" {}") and around[:-3].endswith((",", ":")):
        text = text if text.startswith("I") else text[0].lower() + text[1:]
    text = around.format(text)
    habit = draw.random()
    if habit < 0.15:
        text = text.rstrip("?？.。!！")
    elif habit < 0.25 and fact.language == "en":
        text = text.lower()
    elif habit < 0.3:
        text = text.replace("?", "??").replace("？", "？？")
    return text
