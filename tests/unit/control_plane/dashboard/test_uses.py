"""How much accounts of limits use over the whole mesh."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from control_plane.dashboard.uses import UsesEverywhere
from control_plane.push.sidecars import Told
from ext_proc.contract.uses import Use, merged_uses

MOVES = st.lists(
    st.tuples(st.integers(0, 2), st.dictionaries(st.sampled_from("abc"), st.builds(Use, st.integers(0, 3)))),
    max_size=12,
)


@settings(max_examples=40)
@given(MOVES)
def test_the_sum_is_that_of_what_each_told_last(moves: list[tuple[int, dict[str, Use]]]) -> None:
    """However often; what nobody uses any more is forgotten."""
    everywhere, last = UsesEverywhere(), [Told()] * 3
    for sidecar, uses in moves:
        after = Told(uses=uses)
        everywhere.told(last[sidecar], after)
        last[sidecar] = after
    used = {account: use for account, use in merged_uses(one.uses for one in last).items() if use != Use()}
    assert everywhere.most(10) == used
    for one in last:
        everywhere.told(one, Told())
    assert everywhere.most(10) == {}
    assert repr(everywhere) == "<UsesEverywhere 0 accounts>"
