"""Which questions are asked: of every kind, in the shares of `WEIGHTS` (pure; chance is passed in)."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from tests.soak.questions import CHAT, EMBEDDINGS, Kind, Question

WEIGHTS: Final = {
    Kind.CHAT: 22,
    Kind.STREAM: 12,
    Kind.LONG: 1,
    Kind.LIMITED: 14,
    Kind.EMBED: 12,
    Kind.ARRAY: 8,
    Kind.SESSION: 8,
    Kind.CACHED: 14,
    Kind.CROWD: 4,
    Kind.NARROW: 5,
}
SESSIONS: Final = 24
TURNS_OF_EACH: Final = 12
KNOWN: Final = 400
CROWD: Final = 5
# Looked for afterwards, wherever they must not be.
PROMPT_MARKER: Final = "prompt-marker-41c7"
PHONE: Final = "13900139417"
SESSION_MARKER: Final = "session-marker-8d2e"
_MODELS: Final = {Kind.CHAT: "plain", Kind.STREAM: "plain", Kind.LONG: "plain"}


@dataclass(slots=True)
class Talk:
    """One session. It is asked one question after the other, and what was asked is known."""

    name: str
    asked: list[str] = field(default_factory=list)
    busy: bool = False
    since: float | None = None


class Traffic:
    """Makes questions. `key` is the Consumer's, `tag` is in their names, so that no two runs' are alike."""

    def __init__(self, chance: random.Random, key: str, tag: str = "") -> None:
        self._chance = chance
        self._key = key
        self._tag = tag
        self._number = 0
        self._sessions = 0
        self.talks = [self._talk() for _ in range(SESSIONS)]

    def next(self) -> Sequence[Question]:
        """Return what is asked next: one question, or several alike at the same moment."""
        kind = self._chance.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
        return self.of(kind)

    def of(self, kind: Kind) -> Sequence[Question]:
        """Return questions of one kind."""
        if kind is Kind.EMBED:
            return [self._embeddings()]
        if kind is Kind.CROWD:
            name = self._name(kind.value)
            return [self._chat(kind, name, streamed=self._chance.random() < 0.5) for _ in range(CROWD)]
        if kind is Kind.CACHED:
            # A few are asked often, many seldom; and all are others after a while.
            place = int(KNOWN * self._chance.random() ** 3) + self._number // 3000 * KNOWN
            return [self._chat(kind, f"q-cached{self._tag}-{place}", streamed=self._chance.random() < 0.3)]
        streamed = kind in (Kind.STREAM, Kind.LONG) or (kind is Kind.LIMITED and self._chance.random() < 0.4)
        return [self._chat(kind, self._name(kind.value), streamed=streamed)]

    def free(self) -> Talk | None:
        """Return a session in which nothing is under way; in the place of one that is long, a new one."""
        places = [place for place, talk in enumerate(self.talks) if not talk.busy]
        if not places:
            return None
        place = self._chance.choice(places)
        if len(self.talks[place].asked) >= TURNS_OF_EACH:
            self.talks[place] = self._talk()
        return self.talks[place]

    def _talk(self) -> Talk:
        self._sessions += 1
        return Talk(f"{SESSION_MARKER}-{self._tag}-{self._sessions}")

    def turn(self, talk: Talk) -> Question:
        """Return the next question of a session."""
        name = self._name("session")
        headers = {"x-outrigger-session": talk.name, "authorization": f"Bearer {self._key}"}
        return self._chat(Kind.SESSION, name, streamed=self._chance.random() < 0.3, headers=headers)

    def _name(self, kind: str) -> str:
        self._number += 1
        return f"q-{kind}{self._tag}-{self._number}"

    def _chat(
        self, kind: Kind, name: str, *, streamed: bool, headers: dict[str, str] | None = None
    ) -> Question:
        document: dict[str, Any] = {
            "model": _MODELS.get(kind, kind.value),
            "messages": [{"role": "user", "content": self._text(kind, name)}],
            "temperature": 0,
        }
        if streamed:
            document["stream"] = True
        if kind is Kind.LIMITED:
            headers = {"x-outrigger-tier": "soaked"}
            if self._chance.random() < 0.5:
                headers["authorization"] = f"Bearer {self._key}"
        return Question(name, kind, CHAT, document, headers or {}, streamed)

    def _text(self, kind: Kind, name: str) -> str:
        # What is asked again has to be the same to the letter.
        more = "" if kind in (Kind.CACHED, Kind.CROWD) else " please" * self._chance.randrange(6)
        return f"{name} {PROMPT_MARKER} call {PHONE}{more}"

    def _embeddings(self) -> Question:
        name = self._name(Kind.EMBED.value)
        count = self._chance.choice((1, 1, 1, 2, 3))
        texts = tuple(f"{name} part {place}" for place in range(count))
        document = {"model": "embed", "input": list(texts) if count > 1 else texts[0]}
        return Question(name, Kind.EMBED, EMBEDDINGS, document, texts=texts)


def arrivals(chance: random.Random, per_second: float) -> Iterator[float]:
    """Yield how long to wait before each next question: as of many callers who know nothing of each other."""
    while True:
        yield chance.expovariate(per_second)
