"""How many failures a source has."""

import pytest

from control_plane.auth import throttle as module
from control_plane.auth.throttle import Throttle
from tests.unit.control_plane.auth.clocks import Clock


def test_a_burst_then_a_trickle() -> None:
    """After the burst a source waits; time gives tries back."""
    clock = Clock()
    throttle = Throttle(clock.seconds, burst=3, per_s=0.5)
    assert [throttle.take("10.0.0.1") for _ in range(4)] == [None, None, None, 2]
    clock.pass_s(2)
    assert [throttle.take("10.0.0.1") for _ in range(2)] == [None, 2]
    clock.pass_s(1_000)
    assert [throttle.take("10.0.0.1") for _ in range(4)] == [None, None, None, 2]


def test_sources_do_not_share() -> None:
    """One address that guesses holds up no other."""
    throttle = Throttle(Clock().seconds, burst=1)
    assert throttle.take("10.0.0.1") is None
    assert throttle.take("10.0.0.1") is not None
    assert throttle.take("10.0.0.2") is None


def test_what_was_no_failure_is_given_back() -> None:
    """Never above the burst."""
    throttle = Throttle(Clock().seconds, burst=1)
    for _ in range(5):
        assert throttle.take("a") is None
        throttle.give_back("a")
    throttle.give_back("a")
    assert throttle.take("a") is None
    assert throttle.take("a") is not None


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        ("2001:db8::1", "2001:db8::ffff:2", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("10.0.0.1", "10.0.0.2", False),
        ("local", "local", True),
    ],
)
def test_an_ipv6_host_is_its_network(first: str, second: str, same: bool) -> None:
    """A host has all addresses of its /64, so they count as one."""
    throttle = Throttle(Clock().seconds, burst=1)
    throttle.take(first)
    assert (throttle.take(second) is not None) is same


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of very many sources the one seen longest ago is forgotten."""
    monkeypatch.setattr(module, "MAX_SOURCES", 2)
    throttle = Throttle(Clock().seconds, burst=1)
    for source in ("a", "b", "c"):
        assert throttle.take(source) is None
    assert throttle.take("c") is not None
    assert throttle.take("a") is None
