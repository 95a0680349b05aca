"""What is excused, what went up twice, and how long it took."""

from __future__ import annotations

from tests.soak.ledger import Entry, Excuse, Fault, at_once, doubled, percentile, recoveries, spans_of, sum_up
from tests.soak.questions import Kind, Outcome

INF = float("inf")


def entry(outcome: Outcome, asked: float, ended: float, kind: Kind = Kind.CHAT, name: str = "q") -> Entry:
    """Return what became of a question."""
    return Entry(name, kind, asked, ended, outcome)


def fault(began: float, over: float, *outcomes: Outcome, kinds: tuple[Kind, ...] = ()) -> Fault:
    """Return a fault that excuses outcomes."""
    excuse = Excuse(frozenset(outcomes), frozenset(kinds))
    return Fault("f", began, (excuse,), doubles=True, grace_s=2.0, over_at=over)


def test_a_fault_excuses_what_was_under_way() -> None:
    """While it lasted and shortly after, of its kinds; before and later nothing."""
    faults = [fault(10, 12, Outcome.CUT, kinds=(Kind.STREAM,))]
    times = ((8.0, 9.9), (8.0, 10.1), (13.9, 20.0), (14.1, 20.0))
    cut = [entry(Outcome.CUT, *when, Kind.STREAM) for when in times]
    sums = sum_up(cut, faults)
    assert (sums.excused["f: cut"], sums.unexcused["cut"]) == (2, 2)
    assert sum_up([entry(Outcome.CUT, 11, 11)], faults).unexcused["cut"] == 1
    assert sum_up([entry(Outcome.LOST, 11, 11, Kind.STREAM)], faults).unexcused["lost"] == 1


def test_nothing_excuses_a_wrong_answer() -> None:
    """Not even a fault that would."""
    sums = sum_up([entry(Outcome.WRONG, 11, 11)], [fault(10, 12, Outcome.WRONG)])
    assert len(sums.wrong) == 1


def test_the_order_of_a_session_is_excused_by_a_fault_at_any_time_of_it() -> None:
    """A number that was drawn then stays."""
    late = Entry("q", Kind.SESSION, 100.0, 101.0, Outcome.DISORDERED, since=9.0)
    assert sum_up([late], [fault(10, 12, Outcome.DISORDERED)]).excused["f: disordered"] == 1
    other = Entry("q", Kind.SESSION, 100.0, 101.0, Outcome.DISORDERED, since=50.0)
    assert sum_up([other], [fault(10, 12, Outcome.DISORDERED)]).unexcused["disordered"] == 1


def test_calls_that_went_up_twice() -> None:
    """A fault explains them, or nothing does; what is kept is asked again when it is forgotten."""
    diary = [
        {"at": 1.0, "names": ["a", "b"]},
        {"at": 2.0, "over": ["a"]},
        {"at": 3.0, "names": ["a", "kept"]},
        {"at": 4.0, "names": ["kept"]},
    ]
    spans = spans_of(diary)
    assert spans["a"] == [(1.0, 2.0), (3.0, INF)]
    entries = [entry(Outcome.RIGHT, 0, 9, name="a"), entry(Outcome.RIGHT, 0, 9, Kind.CACHED, "kept")]
    assert doubled(entries, spans, []).unexplained == ("a: 2 calls",)
    found = doubled(entries, spans, [fault(5, 6)])
    assert (found.explained, found.unexplained) == (1, ())


def test_a_crowd_is_answered_by_one_call_at_a_time_of_each_processor() -> None:
    """Whoever comes later asks anew."""
    entries = [entry(Outcome.RIGHT, 0, 9, Kind.CROWD, "c")] * 3
    one_after_the_other = {"c": [(1.0, 2.0), (3.0, 4.0)]}
    both = {"c": [(1.0, 3.0), (2.0, 4.0)]}
    assert at_once(both["c"]) == 2
    assert doubled(entries, one_after_the_other, []).unexplained == ()
    assert doubled(entries, both, [], processors=2).unexplained == ()
    assert doubled(entries, both, []).unexplained == ("c: 2 calls",)


def test_in_the_place_of_a_caller_who_leaves_the_others_ask_once_more() -> None:
    """Its own call is closed meanwhile."""
    spans = {"c": [(1.0, 3.0), (2.0, 4.0)]}
    entries = [entry(Outcome.LEFT, 0, 2, Kind.CROWD, "c"), entry(Outcome.RIGHT, 0, 9, Kind.CROWD, "c")]
    assert doubled(entries, spans, []).unexplained == ()


def test_recovery_is_counted_to_the_last_that_ended_badly() -> None:
    """Before the next fault; of several of a kind the longest."""
    first, second = fault(10, 12), fault(30, 30)
    bad = [entry(Outcome.REFUSED, 13, 15.5), entry(Outcome.AS_IS, 30, 31), entry(Outcome.RIGHT, 40, 50)]
    assert recoveries(bad, [first, second]) == {"f": 3.5}
    assert recoveries([], [first]) == {"f": 0.0}


def test_percentiles() -> None:
    """Of the ordered values."""
    assert percentile([3.0, 1.0, 2.0], 0.5) == 2.0
    assert percentile([], 0.5) == 0.0
