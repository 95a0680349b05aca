"""Releases on `/metrics`."""

from __future__ import annotations

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest

from control_plane.api.release_series import ReleaseSeries
from control_plane.registry.values import Head
from control_plane.releases.machine import Action, Plan, Standing, acted, begun
from control_plane.resources.documents import Documents
from control_plane.resources.kinds.release import ReleaseSpec

PLAN = Plan((5.0, 50.0), 60.0)
DOCUMENTS = Documents(
    releases={"r": ReleaseSpec.model_validate({"model": "m", "from": "a", "to": "b", "steps": [5, 50]})}
)


def text(series: ReleaseSeries) -> list[str]:
    """Return what is shown, without comments."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(series)
    return [line for line in generate_latest(registry).decode().splitlines() if not line.startswith("#")]


def head(**standings: Standing) -> Head:
    """Return a head with Releases that are so far."""
    return Head(1, documents=DOCUMENTS, releases=standings)


def test_where_each_release_is_and_what_moved_it() -> None:
    """One phase is 1, the others are 0; moves have closed words for what happened and why."""
    series = ReleaseSeries()
    first = begun(PLAN, 1, 0.0)
    series.follow(head())
    series.follow(head(r=first))
    series.follow(head(r=first))
    series.follow(head(r=acted(first, PLAN, Action.PROMOTE, "ann", 1.0)))
    lines = text(series)
    assert 'outrigger_release_phase{model="m",phase="progressing",release="r"} 1.0' in lines
    assert sum(line.endswith(" 1.0") and "release_phase{" in line for line in lines) == 1
    assert 'outrigger_release_step{model="m",release="r"} 2.0' in lines
    assert 'outrigger_release_share_ratio{model="m",release="r"} 0.5' in lines
    assert 'outrigger_release_moves_total{event="started",reason="applied"} 1.0' in lines
    assert 'outrigger_release_moves_total{event="step",reason="person"} 1.0' in lines


def test_what_happened_before_is_not_counted() -> None:
    """A restart counts no old moves again; a Release that is gone is not shown."""
    series = ReleaseSeries()
    assert text(series) == []
    series.follow(head(r=begun(PLAN, 1, 0.0)))
    assert not any("moves" in line for line in text(series))
    series.follow(head())
    assert text(series) == []
