"""Asking sidecars what their caches keep."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterable
from dataclasses import replace

from control_plane.push.questions import MAX_GATHERED, Questions
from control_plane.push.views import Gathered, SidecarView
from ext_proc.contract import push_pb2
from ext_proc.contract.cache import CacheAnswer, CacheEntry, CacheQuestion, first_entries
from ext_proc.contract.cache_wire import answer_message, question_of
from tests.unit.control_plane.push.scenes import NOON

A, B, C = "aa" * 32, "bb" * 32, "cc" * 32


def entry(key: str) -> CacheEntry:
    """Return an answer under `key`."""
    return CacheEntry(key, "memory", "m", "v", "t", 1.0, 2.0, hits=1, content_type="t", body=b"{}")


class Sidecars:
    """A fleet whose sidecars keep what the test says; None answers nothing."""

    def __init__(self, **kept: Iterable[str] | None) -> None:
        self.kept = {name: None if keys is None else list(keys) for name, keys in kept.items()}
        self.old: list[str] = []
        self.partial: list[str] = []
        self.asked: list[tuple[frozenset[str], push_pb2.CacheQuestion]] = []
        self.questions = Questions(self, itertools.count(1).__next__, within_s=0.05)

    def sidecars(self) -> list[SidecarView]:
        """Return those that are connected."""
        return [
            SidecarView(name, "web", connected=True, connected_at=NOON) for name in (*self.kept, *self.old)
        ]

    def answering(self) -> frozenset[str]:
        """Return those that understand."""
        return frozenset(self.kept)

    def ask(self, names: Iterable[str], message: bytes) -> None:
        """Let each answer in the next step of the loop."""
        asked = push_pb2.Snapshot.FromString(message).question
        self.asked.append((frozenset(names), asked))
        for name in names:
            if (keys := self.kept[name]) is not None:
                asyncio.get_running_loop().call_soon(self._answer, name, keys, asked)

    def _answer(self, name: str, keys: list[str], asked: push_pb2.CacheQuestion) -> None:
        question = question_of(asked)
        assert question is not None
        found = [entry(key) for key in keys if question.asks_for(key, "m", "t")]
        answer = first_entries(found, question.limit)
        if not question.bodies:
            answer = CacheAnswer(tuple(replace(one, body=None) for one in answer.entries), answer.more)
        self.questions.answered(name, answer_message(answer, asked.id, partial=name in self.partial))


def holders(found: Gathered) -> dict[str, tuple[str, ...]]:
    """Return who keeps what."""
    return {kept.entry.key: kept.sidecars for kept in found.answers}


async def test_what_several_keep_is_shown_once_with_all_of_them() -> None:
    """Nobody's body is asked for in a list."""
    fleet = Sidecars(one=[A, B], two=[B])
    found = await fleet.questions.ask(CacheQuestion(bodies=True))
    assert holders(found) == {A: ("one",), B: ("one", "two")}
    assert (found.more, found.unanswered) == (False, ())
    assert [kept.entry.hits for kept in found.answers] == [1, 2]
    assert not fleet.asked[0][1].bodies


async def test_who_did_not_answer_is_named() -> None:
    """Silent, of an older build, or without an answer of all its processors; the others' part is told."""
    fleet = Sidecars(quick=[A], silent=None, half=[B])
    fleet.old, fleet.partial = ["old"], ["half"]
    found = await fleet.questions.ask(CacheQuestion())
    assert holders(found) == {A: ("quick",), B: ("half",)}
    assert found.unanswered == ("half", "old", "silent")


async def test_nobody_there_is_no_wait() -> None:
    """And no answer."""
    assert await Sidecars().questions.ask(CacheQuestion()) == Gathered()


async def test_pages_go_on_where_the_one_before_ended() -> None:
    """Of all sidecars together."""
    fleet = Sidecars(one=[A, C], two=[B])
    first = await fleet.questions.ask(CacheQuestion(limit=2))
    assert (list(holders(first)), first.more) == ([A, B], True)
    second = await fleet.questions.ask(CacheQuestion(limit=2, after=B))
    assert (list(holders(second)), second.more) == ([C], False)


async def test_a_large_fleet_answers_little_each() -> None:
    """Thousands of sidecars with a thousand answers each would be more than fits."""
    fleet = Sidecars(**{f"s{number}": [A] for number in range(200)})
    await fleet.questions.ask(CacheQuestion(limit=1000))
    assert fleet.asked[0][1].limit == MAX_GATHERED // 200


async def test_a_body_is_asked_of_one_sidecar() -> None:
    """However many keep it; the next one is asked when it is gone there meanwhile."""
    fleet = Sidecars(one=[A], two=[A])
    found = await fleet.questions.read(A)
    (kept,) = found.answers
    assert (kept.entry.body, kept.sidecars) == (b"{}", ("one", "two"))
    assert [names for names, asked in fleet.asked if asked.bodies] == [frozenset({"one"})]
    assert (await fleet.questions.read(C)).answers == ()


async def test_answers_that_nobody_waits_for_are_nothing() -> None:
    """Too late, twice, or to what was never asked."""
    fleet = Sidecars(one=[A])
    fleet.questions.answered("one", push_pb2.CacheAnswer(id=99))
    await fleet.questions.ask(CacheQuestion())
    fleet.questions.answered("one", push_pb2.CacheAnswer(id=1))
    assert repr(fleet.questions) == "<Questions 0 open>"
