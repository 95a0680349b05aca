"""What is asked, and that a number brings it again."""

from __future__ import annotations

import random
from itertools import islice

from tests.soak.questions import Kind
from tests.soak.traffic import CROWD, TURNS_OF_EACH, WEIGHTS, Traffic, arrivals


def asked(number: int) -> list[str]:
    """Return the names and forms of many questions."""
    traffic = Traffic(random.Random(number), "ork_x", "t")
    questions = [one for _ in range(400) for one in traffic.next() if one.kind is not Kind.SESSION]
    return [f"{one.name} {one.streamed}" for one in questions]


def test_the_same_number_asks_the_same() -> None:
    """Another one asks something else."""
    assert asked(1) == asked(1)
    assert asked(1) != asked(2)


def test_every_kind_is_asked() -> None:
    """A crowd at one moment; a question's name is in what goes up, once for all."""
    traffic = Traffic(random.Random(1), "ork_x")
    for kind in WEIGHTS:
        questions = traffic.of(kind) if kind is not Kind.SESSION else [traffic.turn(traffic.talks[0])]
        assert len(questions) == (CROWD if kind is Kind.CROWD else 1)
        assert len({one.name for one in questions}) == 1
        assert questions[0].name in str(questions[0].document)


def test_a_session_that_is_long_makes_room() -> None:
    """One whose question is under way is let be."""
    traffic = Traffic(random.Random(1), "ork_x")
    for talk in traffic.talks[1:]:
        talk.busy = True
    first = traffic.free()
    assert first is traffic.talks[0]
    first.asked += ["q"] * TURNS_OF_EACH
    again = traffic.free()
    assert again is not None
    assert again.name != first.name
    again.busy = True
    assert traffic.free() is None


def test_arrivals_come_at_their_pace() -> None:
    """On an average."""
    waits = list(islice(arrivals(random.Random(1), 50.0), 2000))
    assert 0.018 < sum(waits) / len(waits) < 0.022
