"""Two versions' answers, as the cache has them."""

from __future__ import annotations

from dataclasses import replace

import orjson
import pytest

from ext_proc.answers import StoredAnswer
from ext_proc.contract.snapshot import Model, Rollout, Version
from ext_proc.exchange import Exchange
from ext_proc.other_answers import OtherAnswers
from ext_proc.question import question_key
from ext_proc.release_tally import ReleaseTally
from tests.unit.ext_proc.exchanges import caching, exchange, snapshot

MODEL = Model(
    "m",
    (Version("old", "b", "m-1"), Version("new", "b", "m-2"), Version("third", "b", "m-3")),
    releases=(Rollout("r", "old", "new", 0.5, "salt"),),
)


def asked(version: str, model: Model = MODEL) -> Exchange:
    """Return an exchange that a version of the Model answers."""
    opened = exchange(snapshot(models={"m": MODEL}))
    opened.model, opened.release, opened.assigned = model, "r", version
    opened.version = next(one for one in MODEL.versions if one.name == version)
    opened.backend = opened.loaded.snapshot.backends["b"]
    return opened


def stored(text: str) -> StoredAnswer:
    """Return an answer as it is kept."""
    choice = {"index": 0, "message": {"content": text}, "finish_reason": "stop"}
    return StoredAnswer(orjson.dumps({"choices": [choice]}), "application/json", "m", "v", 0.0, 9.0)


@pytest.mark.parametrize(("first", "second"), [("old", "new"), ("new", "old")])
@pytest.mark.parametrize(("text", "disagreed"), [("yes", 0), ("no", 1)])
def test_the_second_of_two_answers_is_compared(first: str, second: str, text: str, disagreed: int) -> None:
    """Whichever version was asked first."""
    tiers, tally = caching().tiers, ReleaseTally()
    others = OtherAnswers(tiers, tuple, tally)
    tiers.put(question_key(asked(first)), stored("yes"), None, ())
    opened = asked(second)
    others.asked(opened)
    others.answered(opened, stored(text))
    likeness = tally.comparisons["r"].likeness
    assert (likeness.cache_compared, likeness.cache_disagreed) == (1, disagreed)


def test_without_the_other_answer_there_is_nothing_to_compare() -> None:
    """Nor is there for a version that the Release has nothing to do with, or without the Release."""
    tally = ReleaseTally()
    others = OtherAnswers(caching().tiers, tuple, tally)
    for opened in (asked("old"), asked("third"), asked("old", replace(MODEL, releases=()))):
        others.asked(opened)
        others.answered(opened, stored("yes"))
    assert tally.comparisons == {}
