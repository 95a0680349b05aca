"""What the cache saved, in numbers."""

from __future__ import annotations

from ext_proc.answers import StoredAnswer
from ext_proc.contract.cache import HIT_AGE_BOUNDS_S
from ext_proc.contract.snapshot import Prices
from ext_proc.tally import CacheTally, Warmed

ANSWER = StoredAnswer(b"{}", "t", "m", "v", 0.0, 9.0, prompt_tokens=1_000, completion_tokens=500, seconds=1.5)


def test_a_hit_saves_what_its_call_cost() -> None:
    """Tokens and seconds as the call took, money by the price of a million tokens."""
    tally = CacheTally()
    tally.hit("redis", ANSWER, 0.0, Prices(2.0, 4.0))
    tally.hit("redis", ANSWER, 0.0, None)
    assert tally.hits["redis"] == 2
    assert (tally.saved_prompt_tokens, tally.saved_completion_tokens) == (2_000, 1_000)
    assert (tally.saved_seconds, tally.saved_money) == (3.0, 0.004)


def test_ages_fall_into_buckets() -> None:
    """A bound belongs to its own bucket; the last one has what is older than all."""
    tally = CacheTally()
    for age in (0.0, 1.0, 1.1, 1e9):
        tally.hit("memory", ANSWER, age, None)
    assert tally.ages == [2, 1, *[0] * (len(HIT_AGE_BOUNDS_S) - 2), 1]


def test_shadow_numbers() -> None:
    """What would have been served is counted at once, its verdict when it is known."""
    tally = CacheTally()
    tally.would_serve()
    tally.would_serve(wrong=False)
    tally.would_serve(wrong=True)
    tally.explored()
    tally.vetoed()
    tally.missed()
    assert (tally.semantic_would_serve, tally.semantic_would_be_wrong) == (1, 1)
    assert (tally.semantic_explored, tally.semantic_vetoed, tally.misses) == (1, 1, 1)


def test_questions_asked_in_advance_are_counted_by_what_became_of_them() -> None:
    """Those that are not asked any more all at once."""
    tally = CacheTally()
    tally.warmed_up(Warmed.ANSWERED)
    tally.warmed_up(Warmed.DROPPED, 7)
    assert (tally.warmups[Warmed.ANSWERED], tally.warmups[Warmed.DROPPED]) == (1, 7)
    assert tally.warmups.keys() == set(Warmed)
