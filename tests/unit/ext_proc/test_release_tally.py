"""What versions were compared on, as numbers."""

from __future__ import annotations

from ext_proc.contract.comparisons import Comparison, Likeness
from ext_proc.release_tally import Mirrored, ReleaseTally


def test_what_is_found_out_adds_up_by_release() -> None:
    """Whoever looks sees another object when something has come."""
    tally = ReleaseTally()
    before = tally.comparisons
    for _ in range(2):
        tally.add("r", Comparison(likeness=Likeness(cache_compared=1, cache_disagreed=1)))
    tally.add("s", Comparison())
    assert tally.comparisons is not before
    assert tally.comparisons["r"].likeness.cache_compared == 2
    assert (tally.cache_compared, tally.cache_disagreed) == (2, 2)
    tally.count(Mirrored.FAILED)
    assert tally.mirrored[Mirrored.FAILED] == 1


def test_a_release_that_is_gone_is_forgotten() -> None:
    """What stays is the same object as long as nothing goes."""
    tally = ReleaseTally()
    tally.add("r", Comparison())
    before = tally.comparisons
    tally.keep({"r", "x"})
    assert tally.comparisons is before
    tally.keep({"x"})
    assert tally.comparisons == {}
