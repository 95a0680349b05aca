"""Asking sidecars what their caches keep, and gathering what they answer in time.

Each replica asks the sidecars that are connected to it, and no other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Final, Protocol

from control_plane.push.views import Gathered, KeptAnswer, SidecarView
from ext_proc.contract import push_pb2
from ext_proc.contract.cache import CacheAnswer, CacheQuestion, gathered
from ext_proc.contract.cache_wire import answer_of, question_message

ANSWER_WITHIN_S: Final = 2.0
# What all sidecars together may answer: each page of a large fleet is a small one of each.
MAX_GATHERED: Final = 20_000


class AskedFleet(Protocol):
    """The fleet, as it is asked."""

    def sidecars(self) -> list[SidecarView]:
        """Return every sidecar that is known."""
        ...

    def answering(self) -> frozenset[str]:
        """Return the connected sidecars that understand questions."""
        ...

    def ask(self, names: Iterable[str], message: bytes) -> None:
        """Have each of these sent a message."""
        ...


@dataclass(slots=True)
class _Open:
    """A question that is being answered: by whom still, and what came."""

    left: set[str]
    answers: dict[str, CacheAnswer] = field(default_factory=dict)
    partial: set[str] = field(default_factory=set)
    done: asyncio.Event = field(default_factory=asyncio.Event)


class Questions:
    """The questions of one control plane.

    Args:
        fleet: is asked.
        new_id: a number that no question has had, of 64 bits.
        within_s: how long sidecars have for an answer.
    """

    def __init__(
        self, fleet: AskedFleet, new_id: Callable[[], int], within_s: float = ANSWER_WITHIN_S
    ) -> None:
        self._fleet = fleet
        self._new_id = new_id
        self._within_s = within_s
        self._open: dict[int, _Open] = {}

    def __repr__(self) -> str:
        return f"<Questions {len(self._open)} open>"

    async def ask(self, question: CacheQuestion) -> Gathered:
        """Return what the caches of all connected sidecars keep of it; without bodies, whatever it says."""
        asked = self._fleet.answering()
        share = MAX_GATHERED // max(len(asked), 1)
        limit = max(1, min(question.limit, share))
        found = await self._ask(asked, replace(question, limit=limit, bodies=False))
        holders: dict[str, list[str]] = {}
        for name, answer in sorted(found.answers.items()):
            for entry in answer.entries:
                holders.setdefault(entry.key, []).append(name)
        whole = gathered(list(found.answers.values()), question.limit)
        connected = {sidecar.id for sidecar in self._fleet.sidecars() if sidecar.connected}
        missing = found.left | found.partial | (connected - asked)
        return Gathered(
            tuple(KeptAnswer(entry, tuple(holders[entry.key])) for entry in whole.entries),
            whole.more,
            tuple(sorted(missing)),
        )

    async def read(self, key: str) -> Gathered:
        """Return the answer under `key` with its body, if any connected sidecar keeps it."""
        question = CacheQuestion(key_prefix=key, limit=1)
        found = await self.ask(question)
        for kept in found.answers:
            # Bodies are large: one sidecar is asked for it, and the next only when that one has lost it.
            for name in kept.sidecars:
                told = await self._ask(frozenset({name}), replace(question, bodies=True))
                entries = [entry for answer in told.answers.values() for entry in answer.entries]
                if entries:
                    entry = replace(kept.entry, body=entries[0].body, content_type=entries[0].content_type)
                    return replace(found, answers=(replace(kept, entry=entry),), more=False)
        return replace(found, answers=(), more=False)

    def answered(self, sidecar: str, message: push_pb2.CacheAnswer) -> None:
        """Take a sidecar's answer; one that nobody waits for any more is nothing."""
        waiting = self._open.get(message.id)
        if waiting is None or sidecar not in waiting.left:
            return
        waiting.left.discard(sidecar)
        waiting.answers[sidecar] = answer_of(message)
        if message.partial:
            waiting.partial.add(sidecar)
        if not waiting.left:
            waiting.done.set()

    async def _ask(self, names: frozenset[str], question: CacheQuestion) -> _Open:
        waiting = _Open(set(names & self._fleet.answering()))
        if not waiting.left:
            return waiting
        question_id = self._new_id()
        self._open[question_id] = waiting
        try:
            message = question_message(question, question_id).SerializeToString()
            self._fleet.ask(frozenset(waiting.left), message)
            async with asyncio.timeout(self._within_s):
                await waiting.done.wait()
        except TimeoutError:
            pass  # who is left is told to have not answered
        finally:
            del self._open[question_id]
        return waiting
