"""What Policies call the workload of a pod."""

from __future__ import annotations

from typing import Any

import pytest

from control_plane.webhook.names import workload_of


def owned(kind: str, name: str, **labels: str) -> dict[str, Any]:
    """Return the metadata of a pod with one owner."""
    owner = {"kind": kind, "name": name, "controller": True}
    return {"name": f"{name}-x", "ownerReferences": [owner], "labels": labels}


@pytest.mark.parametrize(
    ("metadata", "workload"),
    [
        ({"name": "p", "labels": {"outrigger.dev/workload": "w", "app": "a"}}, "w"),
        ({"name": "p", "labels": {"app.kubernetes.io/name": "n", "app": "a"}}, "n"),
        ({"name": "p", "labels": {"app": "a"}}, "a"),
        (owned("ReplicaSet", "shop-5f4b", **{"pod-template-hash": "5f4b"}), "shop"),
        (owned("ReplicaSet", "shop-5f4b"), "shop-5f4b"),
        (owned("StatefulSet", "shop"), "shop"),
        (owned("Job", "nightly-29012345"), "nightly"),
        (owned("Job", "once"), "once"),
        ({"name": "p", "ownerReferences": [{"kind": "A", "name": "b"}]}, "p"),
        ({"generateName": "shop-"}, "shop"),
        ({"labels": None, "ownerReferences": None}, "default"),
    ],
)
def test_the_workload_s_name(metadata: dict[str, Any], workload: str) -> None:
    """A label first, else what made the pod, else the pod's own name."""
    assert workload_of(metadata) == workload
