"""The whole package over a trace in English and Chinese, with a baseline in the place of the model."""

from __future__ import annotations

import random

import pytest

from tests.data.paraphrases import REWORDED, facts, trace
from tests.data.replay import Ngrams, replay, wilson


async def test_a_trace_keeps_the_bound() -> None:
    """False hits are at most the share that the Policy allows, and there are hits in both languages.

    An embedder that knows no word of any language is enough for that: a poor one costs hits, not truth.
    """
    bound = 0.2
    questions = trace(900, random.Random(3), exponent=1.3)
    report = await replay(questions, Ngrams(), bound, random.Random(4))
    lowest, _ = wilson(report.all.wrong, report.all.similar)
    assert lowest <= bound
    assert all(outcome.similar > 10 for outcome in report.by_language.values())
    assert report.all.exact > report.all.similar


async def test_shadow_mode_serves_nothing_and_knows_what_it_would_have_done() -> None:
    """The share of what would have been wrong keeps the bound, too."""
    questions = trace(900, random.Random(5), exponent=1.3)
    report = await replay(questions, Ngrams(), 0.2, random.Random(6), mode="shadow")
    assert report.all.similar == 0
    assert report.tally.semantic_would_serve > 20
    assert report.tally.semantic_would_be_wrong <= 0.2 * report.tally.semantic_would_serve


def test_the_set_is_what_it_says() -> None:
    """No wording stands for two facts, and two fifths of a trace are put in other words."""
    for language in ("en", "zh"):
        wordings = [wording for fact in facts(language) for wording in fact.wordings]
        assert len(set(wordings)) == len(wordings) > 1_000
    questions = trace(2_000, random.Random(1))
    reworded = sum(one.text != one.fact.wordings[0] for one in questions)
    assert reworded / len(questions) == pytest.approx(REWORDED, abs=0.04)
