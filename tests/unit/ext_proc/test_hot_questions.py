"""Which questions are asked most."""

from __future__ import annotations

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from ext_proc.hot_questions import HotQuestions, Question

ROOM = 1_000_000


def question(name: str, size_bytes: int = 0) -> Question:
    """Return one of that size."""
    return Question("/v1/chat/completions", "", name.encode().ljust(size_bytes), "t")


def ask(hot: HotQuestions, *names: str) -> None:
    """Ask questions of these names."""
    for name in names:
        if not hot.again(name.encode()):
            hot.begin(name.encode(), question(name))


def names(found: list[Question]) -> list[str]:
    """Return their names."""
    return [one.body.decode().strip() for one in found]


def test_the_most_asked_come_first_and_what_nobody_repeats_is_left_out() -> None:
    """However many there is room for; no more than are wanted."""
    hot = HotQuestions(10, ROOM)
    ask(hot, *"abacabd")
    assert names(hot.hottest(10)) == ["a", "b"]
    assert names(hot.hottest(1)) == ["a"]


def test_what_is_hot_stays_in_a_long_tail() -> None:
    """Each new question takes the place of the least asked one, and none of them counts as asked twice."""
    hot = HotQuestions(4, ROOM)
    for number in range(500):
        ask(hot, "hot", f"once {number}", *(["warm"] if number % 3 == 0 else ()))
    assert names(hot.hottest(4)) == ["hot", "warm"]
    assert len(hot) == 4


@settings(max_examples=50, deadline=None)
@given(st.lists(st.sampled_from("abcdefghij"), max_size=200), st.integers(1, 6))
def test_counts_are_those_of_space_saving(asked: list[str], room: int) -> None:
    """What makes up more than one part in `room` of all is counted, and what is certain is so."""
    hot = HotQuestions(room, ROOM)
    ask(hot, *asked)
    real = Counter(asked)
    counted = {key.decode(): one for key, one in hot._counted.items()}
    assert {name for name, number in real.items() if number > len(asked) / room} <= counted.keys()
    assert all(one.certain <= real[name] <= one.asked for name, one in counted.items())
    assert hot.size_bytes == sum(one.question.size_bytes for one in counted.values())
    assert len(hot._heap) == len(hot) <= room


def test_bytes_are_bounded() -> None:
    """A question for which leaving out one other is not enough is not kept."""
    hot = HotQuestions(100, 3_000)
    for name in "abc":
        hot.begin(name.encode(), question(name, 400))
        hot.again(name.encode())
    before = hot.size_bytes
    hot.begin(b"long", question("long", 2_400))
    assert (hot.size_bytes, len(hot)) == (before, 3)
    hot.begin(b"fits", question("fits", 600))
    assert len(hot) == 3
    assert hot.again(b"fits")
    assert hot.size_bytes <= 3_000
    alone = HotQuestions(100, 100)
    alone.begin(b"a", question("a"))
    assert len(alone) == 0


def test_what_was_asked_counts_half_later_on() -> None:
    """Then what is asked now soon counts more."""
    hot = HotQuestions(10, ROOM)
    ask(hot, *["then"] * 9)
    for _ in range(2):
        hot.halve()
    ask(hot, *["now"] * 3)
    assert names(hot.hottest(10)) == ["now", "then"]
    hot.halve()
    assert names(hot.hottest(10)) == []


def test_with_less_room_the_least_asked_leave() -> None:
    """Without any, all do."""
    hot = HotQuestions(10, ROOM)
    ask(hot, *"aabbbc")
    hot.resize(2, ROOM)
    assert names(hot.hottest(10)) == ["b", "a"]
    hot.resize(0, ROOM)
    assert (len(hot), hot.size_bytes) == (0, 0)
    ask(hot, "a")
    assert len(hot) == 0
