"""Between the processors' caches and the control plane."""

from __future__ import annotations

import asyncio

import pytest

from ext_proc.agent import cache_relay
from ext_proc.agent.cache_relay import MAX_OPEN, CacheRelay
from ext_proc.contract import push_pb2
from ext_proc.contract.cache import (
    CacheAnswer,
    CacheEntry,
    CacheQuestion,
    CacheStatistics,
    TierStatistics,
)
from ext_proc.contract.cache_wire import answer_message, answer_of, statistics_message, statistics_of


class Scene:
    """A relay between processors that are asked, and what it told."""

    def __init__(self, *streams: int) -> None:
        self.streams = frozenset(streams)
        self.asked: list[push_pb2.Snapshot] = []
        self.told: asyncio.Queue[push_pb2.Report] = asyncio.Queue()
        self.relay = CacheRelay(self.told.put_nowait, "agent")
        self.relay.use(self)

    def ask(self, question: push_pb2.Snapshot) -> frozenset[int]:
        """Be the processors."""
        self.asked.append(question)
        return self.streams

    def answers(self, stream: int, *keys: str, question: int = 7) -> None:
        """Let a processor answer that it keeps these."""
        entries = (CacheEntry(key, "memory", "m", "v", "t", 1.0, 2.0, hits=1) for key in keys)
        self.relay.answered(stream, answer_message(CacheAnswer(tuple(entries)), question))

    def counts(self, stream: int, hits: int, epoch: str = "") -> None:
        """Let a processor tell its statistics."""
        statistics = CacheStatistics((TierStatistics("memory", hits, 0, 1, 10),), hits=hits)
        self.relay.counted(stream, statistics_message(statistics, epoch))

    async def answer(self) -> push_pb2.CacheAnswer:
        """Return the next answer that is told."""
        return (await asyncio.wait_for(self.told.get(), 5)).cache_answer

    def total(self) -> tuple[int, int]:
        """Return hits and entries of all."""
        statistics = self.relay.statistics()
        return statistics.hits, sum(tier.entries for tier in statistics.tiers)


async def test_every_processor_is_asked_and_the_answers_are_one() -> None:
    """What two of them keep is in it once; it carries the question's id."""
    scene = Scene(1, 2)
    scene.relay.ask(7, CacheQuestion(key_prefix="a"))
    assert scene.asked[0].question.key_prefix == "a"
    scene.answers(1, "ab", "ac")
    scene.answers(2, "ab")
    scene.answers(2, "ad")  # it has had its say
    told = await scene.answer()
    assert (told.id, told.partial) == (7, False)
    assert [(entry.key, entry.hits) for entry in answer_of(told).entries] == [("ab", 2), ("ac", 1)]
    scene.answers(1, "ab")  # too late is nothing
    assert scene.told.empty()


async def test_nobody_there_keeps_nothing() -> None:
    """And says so at once."""
    scene = Scene()
    scene.relay.ask(7, CacheQuestion())
    told = await scene.answer()
    assert (list(told.entries), told.partial) == ([], False)


async def test_a_processor_that_dies_leaves_the_answer_partial() -> None:
    """The others' part of it is told."""
    scene = Scene(1, 2)
    scene.relay.ask(7, CacheQuestion())
    scene.answers(1, "ab")
    scene.relay.gone(2)
    told = await scene.answer()
    assert ([entry.key for entry in told.entries], told.partial) == (["ab"], True)


async def test_a_processor_that_is_silent_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """The control plane gets what there is, in time."""
    monkeypatch.setattr(cache_relay, "ANSWER_WITHIN_S", 0.01)
    scene = Scene(1)
    scene.relay.ask(7, CacheQuestion())
    assert (await scene.answer()).partial


async def test_questions_are_bounded() -> None:
    """One too many is answered with nothing, and told to be so."""
    scene = Scene(1)
    for number in range(MAX_OPEN + 1):
        scene.relay.ask(number, CacheQuestion())
    told = await scene.answer()
    assert (told.id, told.partial) == (MAX_OPEN, True)
    assert len(scene.asked) == MAX_OPEN
    for number in range(MAX_OPEN):
        scene.answers(1, question=number)
        assert (await scene.answer()).id == number


async def test_a_dead_processor_keeps_nothing_and_has_done_what_it_did() -> None:
    """Its next life counts from nothing on."""
    scene = Scene()
    scene.counts(1, hits=5, epoch="first")
    scene.counts(2, hits=1, epoch="other")
    assert scene.total() == (6, 2)
    scene.relay.gone(1)
    assert scene.total() == (6, 1)
    scene.counts(3, hits=2, epoch="second")
    assert scene.total() == (8, 2)


async def test_a_processor_that_connects_again_is_counted_once() -> None:
    """The stream broke, its process went on."""
    scene = Scene()
    scene.counts(1, hits=5, epoch="same")
    scene.counts(2, hits=6, epoch="same")
    scene.relay.gone(1)
    assert scene.total() == (6, 1)


async def test_no_count_is_lost_over_many_restarts() -> None:
    """Only so many dead ones are remembered by themselves."""
    scene = Scene()
    for number in range(3 * MAX_OPEN):
        scene.counts(number, hits=1, epoch=f"{number}")
        scene.relay.gone(number)
    assert scene.total() == (3 * MAX_OPEN, 0)


async def test_statistics_are_told_when_they_change(monkeypatch: pytest.MonkeyPatch) -> None:
    """And at each new connection."""
    monkeypatch.setattr(cache_relay, "TELL_EVERY_S", 0.001)
    scene = Scene(1)
    running = asyncio.create_task(scene.relay.run())
    scene.counts(1, hits=5)
    told = (await asyncio.wait_for(scene.told.get(), 5)).cache_statistics
    assert (told.epoch, statistics_of(told).hits) == ("agent", 5)
    await asyncio.sleep(0.01)
    assert scene.told.empty()
    assert [report.cache_statistics.hits for report in scene.relay.standing()] == [5]
    scene.relay.ask(7, CacheQuestion())
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert scene.told.empty()
