"""Which operating system a pod is for."""

from __future__ import annotations

from typing import Any

import pytest

from control_plane.webhook.systems import is_for_windows

OS = "kubernetes.io/os"
WINDOWS = {"key": OS, "operator": "In", "values": ["windows"]}
LINUX = {"key": OS, "operator": "In", "values": ["linux"]}
ZONE = {"key": "zone", "operator": "In", "values": ["windows"]}
OPTIONS = {"windowsOptions": {"runAsUserName": "ContainerUser"}}


def drawn(*terms: dict[str, Any], how: str = "required") -> dict[str, Any]:
    """Return a spec with an affinity to nodes that meet one of `terms`."""
    name = f"{how}DuringSchedulingIgnoredDuringExecution"
    found: Any = {"nodeSelectorTerms": list(terms)}
    if how == "preferred":
        found = [{"weight": 1, "preference": term} for term in terms]
    return {"affinity": {"nodeAffinity": {name: found}}}


def all_of(*expressions: dict[str, Any]) -> dict[str, Any]:
    """Return a term."""
    return {"matchExpressions": list(expressions)}


@pytest.mark.parametrize(
    "spec",
    [
        {"os": {"name": "windows"}},
        {"nodeSelector": {OS: "windows"}},
        {"nodeSelector": {"beta.kubernetes.io/os": "windows"}},
        drawn(all_of(WINDOWS)),
        drawn(all_of({**WINDOWS, "key": "beta.kubernetes.io/os"})),
        drawn(all_of({**LINUX, "operator": "NotIn"})),
        drawn(all_of(ZONE, WINDOWS)),
        drawn(all_of(WINDOWS), all_of(ZONE, WINDOWS)),
        drawn(all_of(WINDOWS), {}, all_of()),
        {"securityContext": OPTIONS, "containers": []},
        {"containers": [{}, {"securityContext": OPTIONS}]},
        {"containers": [{}], "initContainers": [{"securityContext": OPTIONS}]},
    ],
    ids=repr,
)
def test_pods_for_windows(spec: dict[str, Any]) -> None:
    """However they say it."""
    assert is_for_windows(spec)


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"os": {"name": "linux"}},
        {"nodeSelector": {OS: "linux"}},
        {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": None}}},
        drawn(),
        drawn({}),
        drawn(all_of(LINUX)),
        drawn(all_of(ZONE)),
        drawn(all_of({**WINDOWS, "operator": "NotIn"})),
        drawn(all_of({**WINDOWS, "values": ["linux", "windows"]})),
        drawn(all_of({"key": OS, "operator": "Exists"})),
        drawn(all_of(WINDOWS), all_of(ZONE)),
        drawn({"matchFields": [{**WINDOWS, "key": "metadata.name"}]}),
        drawn(all_of(WINDOWS), how="preferred"),
        {"containers": [{"securityContext": {"windowsOptions": None}}, {"securityContext": None}]},
    ],
    ids=repr,
)
def test_pods_that_may_run_on_linux(spec: dict[str, Any]) -> None:
    """A wish is no demand, and one of two ways is enough."""
    assert not is_for_windows(spec)
