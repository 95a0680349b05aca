"""Asking: every query of every Release, and what becomes of the answers."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from control_plane.releases.asking import NONE_GIVEN, Asking, UnknownValueError, Wanted
from control_plane.releases.queries import Answer
from control_plane.resources.kinds.release import PrometheusGate

GATES = (PrometheusGate(query="a", max=1.0), PrometheusGate(query="b", max=1.0))


class Scene:
    """A Prometheus that knows what it is told, and where answers go."""

    def __init__(self) -> None:
        self.values: dict[str, float] = {}
        self.wanted: dict[str, Wanted] = {"r": Wanted(1, GATES)}
        self.answers: Mapping[str, Sequence[Answer]] = {}
        self.looks = 0

    async def ask(self, query: str) -> float:
        """Answer, or say that it is not known."""
        if query not in self.values:
            raise UnknownValueError("the query finds nothing")
        return self.values[query]

    def take(self, answers: Mapping[str, Sequence[Answer]]) -> None:
        """Keep the answers."""
        self.answers = answers
        self.looks += 1


async def test_each_query_has_its_answer() -> None:
    """In their order; those beyond are counted as long as the document stays the same."""
    scene = Scene()
    asking = Asking(scene.ask, lambda: scene.wanted, scene.take)
    scene.values["b"] = 2.0
    await asking.look()
    await asking.look()
    assert scene.answers == {"r": (Answer(None, "the query finds nothing"), Answer(2.0, in_a_row=2))}
    scene.wanted = {"r": Wanted(2, GATES)}
    await asking.look()
    assert scene.answers["r"][1] == Answer(2.0, in_a_row=1)


async def test_an_ended_release_is_forgotten() -> None:
    """Nothing is asked for it any more."""
    scene = Scene()
    asking = Asking(scene.ask, lambda: scene.wanted, scene.take)
    await asking.look()
    scene.wanted = {}
    await asking.look()
    assert scene.answers == {}


async def test_without_a_prometheus_every_answer_is_unknown() -> None:
    """It says what to do."""
    scene = Scene()
    await Asking(None, lambda: scene.wanted, scene.take).look()
    assert scene.answers == {"r": (NONE_GIVEN, NONE_GIVEN)}


async def test_it_goes_on_until_it_is_stopped() -> None:
    """Every few seconds."""
    scene = Scene()
    task = asyncio.create_task(Asking(scene.ask, lambda: scene.wanted, scene.take, every_s=0).run())
    async with asyncio.timeout(5):
        while scene.looks < 3:  # noqa: ASYNC110  # it tells nobody of a look
            await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])
