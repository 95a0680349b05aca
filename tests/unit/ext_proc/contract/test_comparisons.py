"""What is found out of two versions: it adds up."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ext_proc.contract.comparisons import LIKENESS, Comparison, Likeness, Outcomes, merged_comparisons

LIKENESSES = st.builds(Likeness, *(st.integers(0, 9) for _ in LIKENESS))


@given(LIKENESSES, LIKENESSES)
def test_what_came_since_is_what_was_added(one: Likeness, other: Likeness) -> None:
    """And nothing is negative, if counting began anew."""
    assert (one + other).since(one) == other
    assert min(one.since(other).numbers) >= 0
    assert bool(one) is (one != Likeness())


def test_outcomes_add_up_bucket_by_bucket() -> None:
    """Whatever either of them lacks."""
    one = Outcomes(calls=2, errors=1, duration={3: 1})
    both = one + Outcomes(calls=1, output_tokens=7, duration={3: 1, 5: 2}, output={1: 1})
    assert both == Outcomes(calls=3, errors=1, output_tokens=7, duration={3: 2, 5: 2}, output={1: 1})


def test_parts_are_merged_by_release() -> None:
    """One that only some know is there too."""
    one = Comparison(old=Outcomes(calls=1), likeness=Likeness(compared=1))
    merged = merged_comparisons([{"r": one}, {"r": one, "s": one}])
    assert (merged["r"].old.calls, merged["r"].likeness.compared, merged["s"]) == (2, 2, one)
