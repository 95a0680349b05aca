"""Waits between two starts."""

from control_plane.cli.launcher.backoff import DELAYS_S, HEALTHY_AFTER_S, Backoff


def test_a_lone_death_is_answered_at_once() -> None:
    """A killed Envoy is back before its callers give up."""
    assert Backoff().delay_s(0.5) == 0


def test_deaths_in_a_row_wait_longer_up_to_a_cap() -> None:
    """A process that cannot run does not eat the machine, and a repaired one is not waited for long."""
    backoff = Backoff()
    assert [backoff.delay_s(0.1) for _ in range(8)] == [*DELAYS_S, DELAYS_S[-1], DELAYS_S[-1]]
    assert max(DELAYS_S) <= 3
    assert list(DELAYS_S) == sorted(DELAYS_S)


def test_a_good_run_forgives_earlier_deaths() -> None:
    """What happened before breakfast does not slow the evening."""
    backoff = Backoff()
    for _ in range(5):
        backoff.delay_s(0.1)
    assert backoff.delay_s(HEALTHY_AFTER_S) == 0
    assert backoff.deaths == 1
