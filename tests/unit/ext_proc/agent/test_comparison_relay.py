"""Processors' findings as one sidecar's."""

from __future__ import annotations

from collections.abc import Mapping

from ext_proc.agent.comparison_relay import KEPT_APART, ComparisonRelay
from ext_proc.contract import push_pb2
from ext_proc.contract.comparisons import Comparison


def told(compared: int, epoch: str) -> push_pb2.Comparisons:
    """Return what a processor tells of one Release."""
    return push_pb2.Comparisons(
        epoch=epoch, releases=[push_pb2.Comparison(release="r", compared=compared, agreed=1)]
    )


def test_processors_are_added_up_and_none_takes_anything_back() -> None:
    """One that connects again goes on where it was; one that is started again counts anew."""
    sums: list[Mapping[str, Comparison]] = []
    relay = ComparisonRelay(sums.append)
    relay.counted(1, told(5, "a"))
    relay.counted(2, told(7, "b"))
    relay.counted(1, told(6, "a"))
    relay.gone(1)
    relay.counted(3, told(8, "a"))
    relay.gone(2)
    relay.counted(4, told(1, "c"))
    assert [one["r"].likeness.compared for one in sums] == [5, 12, 13, 15, 16]


def test_many_that_are_gone_are_one_sum() -> None:
    """A processor that dies again and again costs no memory."""
    sums: list[Mapping[str, Comparison]] = []
    relay = ComparisonRelay(sums.append)
    for number in range(3 * KEPT_APART):
        relay.counted(number, told(1, f"e{number}"))
        relay.gone(number)
    assert sums[-1]["r"].likeness.compared == 3 * KEPT_APART
    assert len(relay._told) <= KEPT_APART
