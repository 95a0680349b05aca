"""Which promises a report keeps, and in which words."""

from __future__ import annotations

from dataclasses import replace

from tests.soak.ledger import Doubles, Entry, Fault, sum_up
from tests.soak.questions import Kind, Outcome
from tests.soak.report import Figures, as_json, as_markdown, promises, with_last_run
from tests.soak.watching import Growth

ENTRIES = [Entry("q-chat-1", Kind.CHAT, 1.0, 1.25, Outcome.RIGHT)]
GOOD = Figures(
    order=1,
    minutes=1.0,
    capacity_per_s=100.0,
    asked_per_s=60.0,
    sums=sum_up(ENTRIES, []),
    doubles=Doubles(0, ()),
    calls=1,
    leaked=[],
    unsettled=[],
    growths=[Growth("agent", 1, 200.0, 70.0, 1.0, 0.5, 20, 0, {})],
    canaries=[],
    recovery_s={"agent killed": 0.5},
    faults=[Fault("agent killed", 1.0)],
    entries=ENTRIES,
)


def test_a_good_run_keeps_all_promises() -> None:
    """The tables name what was measured."""
    assert all(one.kept for one in promises(GOOD))
    page = as_markdown(GOOD)
    assert "| chat | 1 |" in page
    assert "| agent killed | 1 | 0.5 |" in page
    assert as_json(GOOD)["latency_ms"]["chat"] == {"p50": 250.0, "p95": 250.0, "p99": 250.0}


def test_each_thing_amiss_breaks_its_promise() -> None:
    """One promise each."""
    wrong = [Entry("q-chat-1", Kind.CHAT, 1.0, 2.0, Outcome.WRONG)]
    lost = [Entry("q-chat-1", Kind.CHAT, 1.0, 2.0, Outcome.LOST)]
    grown = Growth("agent", 1, 200.0, 70.0, 1.0, 50.0, 20, 0, {})
    for bad in (
        replace(GOOD, sums=sum_up(wrong, [])),
        replace(GOOD, sums=sum_up(lost, [])),
        replace(GOOD, doubles=Doubles(0, ("q-chat-1: 2 calls",))),
        replace(GOOD, leaked=["['authorization']"]),
        replace(GOOD, unsettled=["places hold 1"]),
        replace(GOOD, growths=[grown]),
        replace(GOOD, canaries=["log holds a key"]),
        replace(GOOD, left=["process 1"]),
        replace(GOOD, faults=[Fault("agent killed", 1.0, failure="OSError")]),
    ):
        assert sum(not one.kept for one in promises(bad)) == 1


def test_the_page_has_the_last_run() -> None:
    """In the place of the one before."""
    page = with_last_run("# Soak\n\n## The last run\n\nold\n", "new\n")
    assert page == with_last_run(page, "new\n") == "# Soak\n\n## The last run\n\nnew\n"
