"""What is asked, and how it shows that an answer is its own question's (pure).

The simulated provider invents an answer from the question, so what it will say is known beforehand; or it
repeats the question (`echo`).
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from control_plane.tools.provider.calls import parse_chat
from control_plane.tools.provider.compose import compose
from control_plane.tools.provider.settings import ProviderSettings

# Three letters and a space are a token by the rule of thumb, alone as well as inside JSON.
_WORDS: Final = (
    "how",
    "did",
    "you",
    "get",
    "all",
    "the",
    "old",
    "men",
    "who",
    "saw",
    "one",
    "big",
    "red",
    "fox",
)


@dataclass(frozen=True, slots=True)
class Call:
    """One HTTP request: its body, the answers that it should get, and how they are read from the answer."""

    body: bytes
    answers: tuple[str, ...]
    read: Callable[[Any], list[str]]

    def own(self, document: Any) -> int:
        """Return how many of its conversations have their own answer in `document`."""
        try:
            found = self.read(document)
        except (KeyError, IndexError, TypeError):
            return 0
        if len(found) != len(self.answers):
            return 0
        return sum(map(str.__eq__, found, self.answers))


@dataclass(frozen=True, slots=True)
class Shape:
    """How questions of one row are asked.

    Where the mesh changes what goes up, `asked_temperature` is what the caller sends and `upstream_model`
    what the provider gets; the answer follows from what goes up.
    """

    model: str
    provider: ProviderSettings
    temperature: float
    max_tokens: int | None = None
    asked_temperature: float | None = None
    upstream_model: str = ""

    def one(self, text: str) -> Call:
        """Return the call that asks one question."""
        body = self._body(_user(text), self.asked_temperature)
        return Call(_bytes(body), (self.answer(text),), _contents)

    def many(self, texts: Sequence[str]) -> Call:
        """Return the call that asks a list of conversations."""
        body = self._body([_user(text) for text in texts], self.asked_temperature)
        return Call(_bytes(body), tuple(map(self.answer, texts)), _by_index)

    def merged(self, texts: Sequence[str]) -> Call:
        """Return one chat that holds all questions, divided by `Q:` and `A:`; of an echo provider only."""
        merged = "\n".join(f"Q: {text}\nA:" for text in texts)
        return Call(_bytes(self._body(_user(merged), None)), tuple(texts), _divided)

    def answer(self, text: str) -> str:
        """Return what the provider says to `text`."""
        body = {**self._body(_user(text), None), "model": self.upstream_model or self.model}
        call = parse_chat(body, path_model="", seed=self.provider.seed, conversations=False, most=0)
        return compose(call, self.provider)[0].text

    def _body(self, messages: object, temperature: float | None) -> dict[str, Any]:
        body: dict[str, Any] = {
            "model": self.model,
            "messages": messages,
            "temperature": self.temperature if temperature is None else temperature,
        }
        return body if self.max_tokens is None else {**body, "max_tokens": self.max_tokens}


def small_talk(number: int, words: int) -> str:
    """Return a question of so many words of three letters; each number's is another one's."""
    drawn = random.Random(number)
    return " ".join([f"{number:03x}", *(drawn.choice(_WORDS) for _ in range(words - 1))])


def numbered(number: int) -> str:
    """Return a short question that no other number has."""
    return f"say number {number}"


def repeating(number: int, lag: int = 400) -> int:
    """Return which question call `number` asks when two of five repeat one at least `lag` calls old."""
    place = number % 5
    if place not in (1, 3) or number < lag + 5:
        return number
    return (number - lag) // 5 * 5 + (0 if place == 1 else 2)


def _user(text: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": text}]


def _bytes(body: dict[str, Any]) -> bytes:
    return json.dumps(body).encode()


def _contents(document: Any) -> list[str]:
    return [document["choices"][0]["message"]["content"]]


def _by_index(document: Any) -> list[str]:
    choices = sorted(document["choices"], key=lambda choice: int(choice["index"]))
    return [choice["message"]["content"] for choice in choices]


def _divided(document: Any) -> list[str]:
    """Return the echoed questions: what stands between a `Q:` and its `A:`."""
    pieces = document["choices"][0]["message"]["content"].split("Q: ")[1:]
    return [piece.removesuffix("\n").removesuffix("A:").strip() for piece in pieces]
