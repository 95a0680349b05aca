"""What is kept of a session."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ext_proc.sessions.records import STEP, Kept, packed, session_key, surplus, tenths, unpacked

RECORDS = st.dictionaries(st.integers(1, 1_000), st.binary(max_size=8), max_size=12)


@settings(max_examples=60)
@given(RECORDS, st.integers(1, 6), st.integers(0, 40))
def test_what_stays_is_the_newest_as_far_as_it_fits(
    records: dict[int, bytes], keep: int, max_bytes: int
) -> None:
    """No record stays that is older than one that goes, and the next one would not have fitted."""
    goes = set(surplus(records, keep, max_bytes))
    stays = records.keys() - goes
    assert max(goes, default=0) < min(stays, default=2_000)
    size = sum(len(records[number]) for number in stays)
    assert len(stays) <= keep
    assert size <= max_bytes
    if goes:
        assert len(stays) == keep or size + len(records[max(goes)]) > max_bytes


def test_records_stand_in_the_order_of_their_numbers() -> None:
    """An answer that came late stands where its question was asked."""
    kept = Kept()
    first, second = kept.draw(), kept.draw()
    kept.take([(second, b"2")], keep=4)
    kept.take([(first, b"1")], keep=4)
    assert kept.in_order() == ((first, b"1"), (second, b"2"))
    kept.take([(first, b"1 again")], keep=4)
    assert kept.in_order()[0] == (first, b"1 again")


def test_processors_apart_draw_different_numbers() -> None:
    """Each later than all that was known, and the next shared one is later than both."""
    here, there = Kept(last=5 * STEP), Kept(last=5 * STEP)
    numbers = {here.draw(1), here.draw(1), there.draw(2), there.draw(2)}
    assert len(numbers) == 4
    assert min(numbers) > 5 * STEP
    shared = Kept()
    shared.take([(number, b"") for number in numbers], keep=9)
    assert shared.draw() > max(numbers)


def test_a_later_number_is_larger_though_nobody_knew_of_the_earlier() -> None:
    """A processor that no store answers, then one that knows nothing of it, and the first one again."""
    here, there = Kept(last=tenths(100.0) * STEP), Kept(last=tenths(100.0) * STEP)
    numbers = [here.draw(9, tenths(101.0)), there.draw(at=tenths(102.0)), here.draw(9, tenths(103.0))]
    assert numbers == sorted(set(numbers))
    # A clock that was put back makes none smaller where the last one is known.
    assert here.draw(9, tenths(50.0)) > numbers[-1]


def test_numbers_are_whole_for_lua() -> None:
    """Also those of a day that is far, and erased."""
    kept = Kept()
    kept.erase(tenths(13_000_000_000.0))
    assert kept.draw(STEP - 1) < 2**53


def test_what_is_erased_does_not_come_back_though_it_was_asked_apart() -> None:
    """By a processor that drew a number which no store has heard of."""
    kept, apart = Kept(last=tenths(100.0) * STEP), Kept()
    late = apart.draw(5, tenths(900.0))
    kept.erase(tenths(901.0))
    kept.take([(late, b"late")], keep=4)
    assert kept.in_order() == ()


def test_what_is_erased_does_not_come_back() -> None:
    """Neither what was kept nor what had been asked, here or by a processor that draws for itself."""
    kept = Kept()
    kept.take([(kept.draw(), b"old")], keep=4)
    apart = Kept(last=kept.last)
    under_way = [kept.draw(), apart.draw(5), apart.draw(5)]
    kept.erase()
    kept.take([(number, b"late") for number in under_way], keep=4)
    assert kept.in_order() == ()
    new = kept.draw()
    kept.take([(new, b"new")], keep=4)
    assert kept.in_order() == ((new, b"new"),)


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(("b", "c", "id"), id="tenant"),
        pytest.param(("a", "x", "id"), id="consumer"),
        pytest.param(("a", "c", "ID"), id="case"),
        pytest.param(("a", "c", "id*"), id="pattern"),
        pytest.param(("a", "c", "../id"), id="path"),
        pytest.param(("a", "ci", "d"), id="borders"),
        pytest.param(("a", "c", "i\udcffd"), id="no text"),
    ],
)
def test_any_difference_is_another_session(other: tuple[str, str, str]) -> None:
    """Of tenant, caller or name; names mean nothing."""
    assert session_key(*other) != session_key("a", "c", "id") == session_key("a", "c", "id")


@settings(max_examples=40)
@given(RECORDS, st.integers(0, 200))
def test_records_are_kept_as_one_value(records: dict[int, bytes], cut: int) -> None:
    """And come back as they were; of a value that breaks off, those before that."""
    listed = sorted(records.items())
    value = packed(listed)
    assert unpacked(value) == listed
    some = unpacked(value[:cut])
    assert some == listed[: len(some)]
