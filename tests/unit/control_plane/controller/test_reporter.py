"""Statuses are written where they differ, and only there."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest

from control_plane.controller.budget import Budget
from control_plane.controller.reporter import Current, Reporter
from control_plane.controller.resources import CustomResource, Key, custom_resources
from control_plane.controller.verdicts import Programming, Standing, Verdict, Verdicts
from control_plane.controller.view import View
from control_plane.kubernetes_client import KubernetesError
from tests.unit.control_plane.controller.cluster import Cluster, Silence, path_of, until

PINS = path_of("Pin")
NAMES = [f"pin-{number}" for number in range(40)]


class Reported:
    """Forty Pins and what writes their statuses."""

    def __init__(self, counts_at_once: int = 1_000) -> None:
        self.cluster = Cluster()
        for name in NAMES:
            self.cluster.put(PINS, name, spec={})
        self.ended: list[str] = []
        self.holds = True
        self.reporter = Reporter(
            self.cluster,
            holds=lambda: self.holds,
            current=self.current,
            learn=lambda _resource, _before, _after: None,
            budget=Budget(counts_at_once, 0, lambda: 0.0),
            now=lambda: datetime(2026, 1, 1, tzinfo=UTC),
            log=Silence(),
            count=self.ended.append,
        )

    def current(self) -> list[Current]:
        """Return the Pins as they are."""
        values = [self.cluster.get(PINS, name) for name in NAMES]
        return [(resource, value) for value in values for resource in custom_resources("Pin", [value])]

    def view(self, current: int = 0) -> View:
        """Return a view in which every Pin is accepted and in force."""
        wanted: dict[Key, CustomResource] = {resource.key: resource for resource, _ in self.current()}
        verdicts = Verdicts(1, {key: Verdict(True, "Accepted") for key in wanted})
        return View(wanted, verdicts, Standing(1, {key: Programming(True, current, 9) for key in wanted}))

    @property
    def writes(self) -> int:
        """How many statuses were written."""
        return len(self.cluster.patches)


async def test_each_status_is_written_once() -> None:
    """A second look at the same writes nothing."""
    found = Reported()
    found.reporter.publish(found.view())
    assert await found.reporter.report() is None
    assert found.writes == len(NAMES)
    assert found.cluster.conditions("Pin", "pin-7") == {
        "Accepted": ("True", "Accepted"),
        "Programmed": ("True", "Programmed"),
    }
    await found.reporter.report()
    assert found.writes == len(NAMES)


async def test_without_a_view_nothing_is_said() -> None:
    """A resource that was changed since it was told has no verdict yet."""
    found = Reported()
    assert await found.reporter.report() is None
    found.reporter.publish(found.view())
    found.cluster.put(PINS, "pin-0", spec={"answer": "new"})
    await found.reporter.report()
    assert found.cluster.conditions("Pin", "pin-0") == {}
    assert found.writes == len(NAMES) - 1


async def test_counts_of_sidecars_have_a_budget() -> None:
    """Pods come and go by the second: a thousand resources are not written for each of them."""
    found = Reported(counts_at_once=3)
    found.reporter.publish(found.view())
    await found.reporter.report()
    found.cluster.patches.clear()
    found.reporter.publish(found.view(current=5))
    await found.reporter.report()
    assert found.writes == 3


async def test_one_that_went_is_no_failure() -> None:
    """It was deleted while its status was on its way."""
    found = Reported()
    found.reporter.publish(found.view())
    found.cluster.refuse = lambda method, path: (
        KubernetesError(404, "NotFound", "x") if "pin-0/" in path else None
    )
    assert await found.reporter.report() is None
    assert found.ended.count("gone") == 1


@pytest.mark.parametrize(("status", "most"), [(409, 40), (0, 16), (403, 16), (500, 16)])
async def test_a_failure_of_all_is_not_tried_with_each(status: int, most: int) -> None:
    """A conflict is about one resource; a server that is away or refuses is asked a few times only."""
    found = Reported()
    found.reporter.publish(found.view())
    found.cluster.refuse = lambda method, path: KubernetesError(status, "x", "y")
    assert await found.reporter.report() is not None
    assert len(found.cluster.calls) == most


async def test_what_failed_is_written_later() -> None:
    """Without anybody asking again."""
    found = Reported()
    failing = [KubernetesError(500, "InternalError", "x")] * 20
    found.cluster.refuse = lambda method, path: failing.pop() if failing else None
    task = asyncio.create_task(found.reporter.run())
    found.reporter.publish(found.view())
    await until(lambda: found.writes == len(NAMES))
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_one_that_was_frozen_writes_nothing_old() -> None:
    """Its Lease has run out by its own clock."""
    found = Reported()
    found.reporter.publish(found.view())
    found.holds = False
    await found.reporter.report()
    assert not found.writes
