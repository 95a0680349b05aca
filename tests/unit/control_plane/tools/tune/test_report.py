"""Reports of tunings."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from control_plane.tools.load.calls import Operation
from control_plane.tools.tune.choosing import Demand
from control_plane.tools.tune.racing import Budget, Race
from control_plane.tools.tune.report import Subject, report
from control_plane.tools.tune.scoring import Prices
from control_plane.tools.tune.settings import Method, Target, settings
from tests.unit.control_plane.tools.tune.providers import Formula, run

SUBJECT = Subject("http://127.0.0.1:1/v1", "m", Operation.EMBEDDINGS, Method.NATIVE)


def tuned(
    requests: int = 20_000,
    demand: Demand | None = None,
    windows: tuple[int, ...] = (),
    subject: Subject = SUBJECT,
    provider: Formula | None = None,
) -> dict[str, Any]:
    """Return the report of a race."""
    race = Race(
        settings((1, 10, 50), windows), demand or Demand(), Budget(requests), 64, random.Random(1), Prices()
    )
    run(race, provider or Formula(square=0.5, slots=8, spread=0.1))
    return report(subject, race, at="2026-01-01T00:00:00Z", seconds=2.0, results={"200": 70, "429": 2})


def test_it_holds_what_scripts_read() -> None:
    """Each size with latency, throughput and errors, and the best; all of it is JSON."""
    made = tuned()
    assert [one["size"] for one in made["sizes"]] == [1, 10, 50]
    assert all(one["latency"] > 0 and one["throughput"] > 0 and one["errors"] == 0 for one in made["sizes"])
    assert made["best"] == 10
    assert made["confidence"] > 0.9
    assert made["budget"]["calls"] == 72
    assert made["gain"]["beside_size"] == 1
    assert made["warnings"] == []
    assert json.loads(json.dumps(made, allow_nan=False)) == made


def test_the_interval_holds_the_targets_figure() -> None:
    """For every target."""
    for target in Target:
        made = tuned(demand=Demand(target))
        row = next(one for one in made["trials"] if one["size"] == made["best"])
        low, high = row["interval"]
        assert low <= high
        assert low * 0.9 <= row[target.value] <= high * 1.1


def test_of_several_windows_a_size_has_its_best() -> None:
    """All of them are trials."""
    made = tuned(windows=(50, 800), demand=Demand(Target.P99))
    assert len(made["trials"]) == 6
    assert len(made["sizes"]) == 3
    assert made["best_window"] == 50


def test_what_was_not_tried_is_null_and_told() -> None:
    """The budget was too small for it."""
    made = tuned(requests=30)
    assert [one["throughput"] is None for one in made["sizes"]] == [False, False, True]
    assert made["sizes"][-1]["requests"] == 0
    assert any("not tried before the end: size 50" in sentence for sentence in made["warnings"])
    assert any("too few calls to say how sure" in sentence for sentence in made["warnings"])
    assert json.loads(json.dumps(made, allow_nan=False)) == made


@pytest.mark.parametrize(
    ("settings_of_it", "told"),
    [
        ({"subject": Subject("u", "m", Operation.CHAT, Method.WAVES)}, "took no list of questions"),
        ({"demand": Demand(max_p99_ms=1)}, "no size keeps the demand"),
        ({"provider": Formula(base=500, each=0.1, square=0, slots=1, spread=0.1)}, "larger ones than 50"),
    ],
)
def test_what_a_reader_must_know_is_told(settings_of_it: dict[str, Any], told: str) -> None:
    """In a sentence."""
    assert any(told in sentence for sentence in tuned(**settings_of_it)["warnings"])


def test_the_smallest_size_gains_nothing_over_itself() -> None:
    """So nothing is told."""
    made = tuned(provider=Formula(base=1, each=100, square=2, slots=64, spread=0.1))
    assert (made["best"], made["gain"]) == (1, None)


def test_without_an_answer_there_is_no_best() -> None:
    """Nor a gain."""
    race = Race(settings((1, 10), ()), Demand(), Budget(100), 8, random.Random(1), Prices())
    made = report(SUBJECT, race, at="", seconds=0.1, results={"connect": 8})
    assert (made["best"], made["gain"], made["confidence"], made["ended"]) == (None, None, 0.0, "interrupted")
    assert made["results"] == {"connect": 8}
