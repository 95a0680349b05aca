"""Pods that were missed."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
import structlog
from prometheus_client import CollectorRegistry, generate_latest
from structlog.testing import capture_logs

from control_plane.kubernetes_client import KubernetesError
from control_plane.webhook import missed
from control_plane.webhook.missed import MissedPods
from tests.unit.control_plane.webhook.cluster import Cluster
from tests.unit.control_plane.webhook.pods import SETTINGS, injected, pod


def cluster(*pods: dict[str, Any]) -> Cluster:
    """Return a cluster with one labelled namespace that holds `pods`."""
    made = Cluster()
    made.collections["/api/v1/namespaces"] = [{"metadata": {"name": "shop"}}]
    made.collections["/api/v1/namespaces/shop/pods"] = list(pods)
    return made


async def test_only_pods_that_would_get_a_pair_are_missed() -> None:
    """Not those that have one, want none, cannot have one, or are going; over several pages."""
    late = injected(pod(), schemas=())
    late["spec"]["containers"].append({"name": "late", "image": "late"})
    found = MissedPods(
        cluster(
            pod(),
            injected(pod(), schemas=()),
            late,
            pod({"hostNetwork": True}),
            pod(labels={"outrigger.dev/inject": "disabled"}),
            pod(deletionTimestamp="2030-01-01T00:00:00Z"),
            pod(),
        ),
        lambda: SETTINGS,
        structlog.get_logger(),
    )
    assert await found.count() == 2


async def test_what_cannot_be_listed_is_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """And looked at again."""
    monkeypatch.setattr(missed, "LOOK_EVERY_S", 0.0)
    made = cluster(pod())
    made.down = True
    pods = MissedPods(made, lambda: SETTINGS, structlog.get_logger())
    with pytest.raises(KubernetesError):
        await pods.count()
    registry = CollectorRegistry(auto_describe=False)
    registry.register(*pods.series)
    with capture_logs() as logs:
        running = asyncio.create_task(pods.run())
        while len(made.calls) < 4:  # noqa: ASYNC110 - it is the loop that is tested
            await asyncio.sleep(0)
        made.down = False
        while b"missed_pods 1.0" not in generate_latest(registry):  # noqa: ASYNC110
            await asyncio.sleep(0)
        running.cancel()
    assert len(logs) == 1
