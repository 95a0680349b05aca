"""The questions that are asked most, of more than can be kept (pure).

Space-Saving: so many are counted, and a new one takes the place and the count of the least asked one. What is
asked often enough is among them, however long the tail; how much of a count may have been somebody else's is
known. See Metwally, Agrawal, El Abbadi, "Efficient Computation of Frequent and Top-k Elements in Data
Streams", ICDT 2005.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from typing import Final

from ext_proc.contract.snapshot import Consumer

MAX_BODY_BYTES: Final = 64 * 1024
"""A question with a longer body is not kept."""
ASKED_AT_LEAST: Final = 2
"""What nobody has repeated is not hot."""
_OWN_BYTES: Final = 512  # about what keeping a question takes beside its texts


@dataclass(frozen=True, slots=True)
class Question:
    """What it takes to ask a question again for whom it was asked. No header of its caller is in it, no key.

    `body` is as it was to go up, masked where the Policy masks. `own_key`: its caller had brought a key.
    """

    path: str
    query: str
    body: bytes
    tenant: str
    tier: str = ""
    consumer: Consumer | None = None
    own_key: bool = False

    @property
    def size_bytes(self) -> int:
        """About what it takes in memory."""
        return len(self.body) + len(self.query) + _OWN_BYTES


@dataclass(slots=True)
class _Counted:
    """How often a question was asked at most, and how often for certain."""

    question: Question
    asked: int
    certain: int = 1


class HotQuestions:
    """Counts questions, each by the key of its answer.

    Args:
        max_questions: how many are counted at a time.
        max_bytes: what they may take in memory.
    """

    def __init__(self, max_questions: int, max_bytes: int) -> None:
        self._max_questions = max_questions
        self._max_bytes = max_bytes
        self._counted: dict[bytes, _Counted] = {}
        # Each key once, with its count at some time: counts only grow, so the real one is not below it.
        self._heap: list[tuple[int, bytes]] = []
        self.size_bytes = 0

    def __len__(self) -> int:
        return len(self._counted)

    def again(self, key: bytes) -> bool:
        """Count a question that is known; return whether it is."""
        found = self._counted.get(key)
        if found is None:
            return False
        found.asked += 1
        found.certain += 1
        return True

    def begin(self, key: bytes, question: Question) -> None:
        """Count a question that is not known, if leaving the least asked one out makes room for it."""
        size = question.size_bytes
        taken_over = 0
        if not self._fits(len(self._counted) + 1, self.size_bytes + size):
            if not self._counted:
                return
            least = self._counted[self._least()]
            if not self._fits(len(self._counted), self.size_bytes - least.question.size_bytes + size):
                return
            taken_over = least.asked
            self._leave_out()
        self._counted[key] = _Counted(question, taken_over + 1)
        self.size_bytes += size
        heapq.heappush(self._heap, (taken_over + 1, key))

    def hottest(self, number: int) -> list[Question]:
        """Return at most so many that were asked more than once, the most asked ones first."""
        repeated = [one for one in self._counted.values() if one.certain >= ASKED_AT_LEAST]
        repeated.sort(key=lambda one: (one.certain, one.asked), reverse=True)
        return [one.question for one in repeated[:number]]

    def halve(self) -> None:
        """Let what was asked until now count half, so that it gives way to what is asked from now on."""
        for one in self._counted.values():
            one.asked //= 2
            one.certain //= 2
        self._heap = [(one.asked, key) for key, one in self._counted.items()]
        heapq.heapify(self._heap)

    def resize(self, max_questions: int, max_bytes: int) -> None:
        """Change the bounds; the least asked ones that no longer fit are left out."""
        self._max_questions, self._max_bytes = max_questions, max_bytes
        while self._counted and not self._fits(len(self._counted), self.size_bytes):
            self._least()
            self._leave_out()

    def _fits(self, questions: int, size_bytes: int) -> bool:
        return questions <= self._max_questions and size_bytes <= self._max_bytes

    def _least(self) -> bytes:
        """Return the key of the least asked one, which is at the top of the heap then."""
        while True:
            asked, key = self._heap[0]
            now = self._counted[key].asked
            if asked == now:
                return key
            heapq.heapreplace(self._heap, (now, key))

    def _leave_out(self) -> None:
        _, key = heapq.heappop(self._heap)
        self.size_bytes -= self._counted.pop(key).question.size_bytes
