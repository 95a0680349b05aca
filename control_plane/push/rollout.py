"""One revision on its way to the sidecars (pure): who is given it first, when all are, when it is halted.

Events in, verdicts out; the clock is passed in. A *content* is what a set of sidecars are to hold alike:
a revision brings one to each kind of workload. Knows neither snapshots nor streams.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

WAVE_SHARE: Final = 0.01
WAVE_MIN: Final = 1
WAVE_MAX: Final = 10
WAVE_LIMIT_S: Final = 0.3
# A revision that some sidecar serves, and that has been out for so long, is not halted by one that comes
# late: that one only shows its refusal.
JUDGED_S: Final = 30.0


class Phase(StrEnum):
    """How far a revision has come."""

    WAVE = "wave"
    ALL = "all"
    HALTED = "halted"


@dataclass(frozen=True, slots=True)
class Candidate:
    """A sidecar that is due a content. `answered_s` is when it last said anything, on the rollout's clock."""

    sidecar: str
    answered_s: float


@dataclass(slots=True)
class _Answers:
    accepted: set[str] = field(default_factory=set)
    refused: set[str] = field(default_factory=set)


def choose_wave(due: Mapping[str, Iterable[Candidate]]) -> frozenset[str]:
    """Return who is given each content first: of each 1 %, at least one and at most ten.

    Those that said something most recently come first: they are the likeliest to answer at once.
    """
    chosen: set[str] = set()
    for candidates in due.values():
        ranked = sorted(candidates, key=lambda candidate: (-candidate.answered_s, candidate.sidecar))
        size = min(WAVE_MAX, max(WAVE_MIN, math.ceil(WAVE_SHARE * len(ranked))))
        chosen.update(candidate.sidecar for candidate in ranked[:size])
    return frozenset(chosen)


class Rollout:
    """The state of one revision.

    A refusal during the wave halts it. The wave ends when all of it have answered or are gone, and after
    `WAVE_LIMIT_S` whatever they do. Later it is halted when more refuse a content than accept it. Once halted
    it stays so.

    Args:
        revision: which one it is.
        wave: who is given it first; with nobody in it, all are at once.
        now_s: the clock.
        contents: what it brings to sidecars that are connected now.
    """

    def __init__(
        self, revision: int, wave: Collection[str], now_s: float, contents: Collection[str] = ()
    ) -> None:
        self.revision = revision
        self.wave = frozenset(wave)
        self.phase = Phase.WAVE if wave else Phase.ALL
        self.reason = ""
        self._waiting = set(wave)
        self._deadline_s = now_s + WAVE_LIMIT_S
        self._released_s = now_s
        self._answers: dict[str, _Answers] = {content: _Answers() for content in contents}

    def __repr__(self) -> str:
        return f"<Rollout r{self.revision} {self.phase} waiting for {len(self._waiting)}>"

    @property
    def deadline_s(self) -> float | None:
        """When `tick` is due; None outside the wave."""
        return self._deadline_s if self.phase is Phase.WAVE else None

    def reaches(self, sidecar: str) -> bool:
        """Return whether `sidecar` is to hold this revision now."""
        return self.phase is Phase.ALL or (self.phase is Phase.WAVE and sidecar in self.wave)

    def is_settled(self, now_s: float) -> bool:
        """Return whether it will stay: somebody serves each content, or the time of judgement is over."""
        if self.phase is not Phase.ALL:
            return False
        served = all(answers.accepted for answers in self._answers.values())
        return served or now_s >= self._released_s + JUDGED_S

    def accepted(self, sidecar: str, content: str, now_s: float) -> Phase:
        """Take in that `sidecar` holds `content`."""
        self._of(content).accepted.add(sidecar)
        return self._answered(sidecar, now_s)

    def refused(self, sidecar: str, content: str, reason: str, now_s: float) -> Phase:
        """Take in that `sidecar` refuses `content`; return the phase that this leads to."""
        answers = self._of(content)
        answers.refused.add(sidecar)
        # In the wave, whoever says so: another one may have had the content from a revision before.
        if self.phase is Phase.WAVE or self._outnumbered(answers, now_s):
            self.halt(reason)
        return self._answered(sidecar, now_s)

    def gone(self, sidecar: str, now_s: float) -> Phase:
        """Take in that `sidecar` has left: nobody waits for it."""
        return self._answered(sidecar, now_s)

    def tick(self, now_s: float) -> Phase:
        """Look at the clock."""
        if self.phase is Phase.WAVE and now_s >= self._deadline_s:
            self._release(now_s)
        return self.phase

    def halt(self, reason: str) -> None:
        """Give it to nobody any more; the first reason stays."""
        if self.phase is not Phase.HALTED:
            self.phase, self.reason = Phase.HALTED, reason

    def _outnumbered(self, answers: _Answers, now_s: float) -> bool:
        judged = not answers.accepted or now_s < self._released_s + JUDGED_S
        return judged and len(answers.refused) > len(answers.accepted)

    def _of(self, content: str) -> _Answers:
        return self._answers.setdefault(content, _Answers())

    def _answered(self, sidecar: str, now_s: float) -> Phase:
        self._waiting.discard(sidecar)
        if self.phase is Phase.WAVE and not self._waiting:
            self._release(now_s)
        return self.tick(now_s)

    def _release(self, now_s: float) -> None:
        self.phase, self._released_s = Phase.ALL, now_s
