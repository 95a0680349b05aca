"""How much accounts of limits have used: sums, the most used ones, and messages."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ext_proc.contract import push_pb2
from ext_proc.contract.uses import MAX_USES, Use, merged_uses, most_used, uses_message, uses_of

USES = st.dictionaries(st.text(max_size=8), st.builds(Use, *[st.integers(0, 2**50)] * 5), max_size=5)


@given(USES)
def test_what_is_told_is_read_as_it_was(uses: dict[str, Use]) -> None:
    """Whatever accounts are called."""
    message = push_pb2.LimitUses.FromString(uses_message(uses).SerializeToString())
    assert uses_of(message) == uses


@given(st.lists(USES, max_size=4))
def test_a_sum_is_that_of_each_account(several: list[dict[str, Use]]) -> None:
    """In any order, and what is taken away again leaves nothing."""
    total = merged_uses(several)
    assert total == merged_uses(reversed(several))
    for account, use in total.items():
        rest = use
        for uses in several:
            rest = rest.minus(uses.get(account, Use()))
        assert rest == Use()


def test_those_that_use_most_are_told() -> None:
    """Of more than can be told; by name."""
    uses = {f"consumer:{number:03}": Use(requests=number) for number in range(MAX_USES + 5)}
    found = most_used(uses)
    assert list(found) == [f"consumer:{number:03}" for number in range(5, MAX_USES + 5)]
    assert most_used({"b": Use(1), "a": Use(2)}) == {"a": Use(2), "b": Use(1)}
    assert len(uses_of(uses_message(uses))) == MAX_USES
