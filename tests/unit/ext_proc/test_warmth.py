"""How warm providers are."""

from __future__ import annotations

from ext_proc.warmth import KNOWN_FROM, Warmth, is_cold


def test_a_pause_makes_the_next_call_a_first_one() -> None:
    """The very first is one, too."""
    warmth = Warmth()
    assert [warmth.sent(now, 10.0) for now in (0.0, 9.0, 18.9, 28.9, 29.0)] == [
        True,
        False,
        False,
        True,
        False,
    ]


def test_cold_is_far_slower_than_usual() -> None:
    """Three times, and a fifth of a second: what is quick anyhow is never cold."""
    assert is_cold(4.0, 1.0)
    assert not is_cold(2.9, 1.0)
    assert is_cold(0.5, 0.1)
    assert not is_cold(0.19, 0.001)


def test_first_calls_are_judged_by_the_others() -> None:
    """The very first one when there are enough of them."""
    warmth = Warmth()
    assert not warmth.answered(3.0, first=True)
    judged = [warmth.answered(0.1, first=False) for _ in range(KNOWN_FROM + 2)]
    assert judged == [*[False] * (KNOWN_FROM - 1), True, False, False]
    assert warmth.answered(2.0, first=True)
    assert not warmth.answered(0.2, first=True)
    quick = Warmth()
    assert not quick.answered(0.1, first=True)
    assert not any(quick.answered(0.1, first=False) for _ in range(KNOWN_FROM + 2))
