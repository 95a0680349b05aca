from __future__ import annotations

from typing import Any

from ext_proc.telemetry.throttle import MAX_EVENTS, Throttled


class Lines:
    """A logger that keeps what it is told."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, dict[str, Any]]] = []

    def warning(self, event: str, **fields: Any) -> None:
        """Keep one line."""
        self.lines.append((event, fields))


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        """Return the time that was set."""
        return self.now


def test_one_line_per_interval_with_the_count_held_back() -> None:
    """A thousand warnings in one interval are one line; the next line says how many there were."""
    lines, clock = Lines(), Clock()
    throttled = Throttled(lines, clock, interval_s=10)
    for _ in range(1_000):
        throttled.warning("cache unreachable", reason="refused")
    clock.now = 10
    throttled.warning("cache unreachable", reason="refused")
    assert lines.lines == [
        ("cache unreachable", {"reason": "refused"}),
        ("cache unreachable", {"reason": "refused", "suppressed": 999}),
    ]


def test_events_and_keys_are_told_apart() -> None:
    """Another event, or the same about another thing, is not held back."""
    lines = Lines()
    throttled = Throttled(lines, Clock())
    throttled.warning("a")
    throttled.warning("b")
    throttled.warning("a", key="x")
    assert [event for event, _ in lines.lines] == ["a", "b", "a"]


def test_memory_is_bounded() -> None:
    """Keys without number do not grow the table without bound."""
    throttled = Throttled(Lines(), Clock())
    for number in range(3 * MAX_EVENTS):
        throttled.warning("a", key=str(number))
    assert len(throttled._next) <= MAX_EVENTS
