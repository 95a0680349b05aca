"""The shape of a pod."""

from __future__ import annotations

from typing import Any

import pytest

from control_plane.webhook.shape import NotAPodError, check_pod
from tests.unit.control_plane.webhook.pods import pod


def _required(affinity: Any) -> dict[str, Any]:
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": affinity}}


def _terms(*terms: Any) -> dict[str, Any]:
    return _required({"nodeSelectorTerms": list(terms)})


def test_a_pod_passes_as_it_is() -> None:
    """What is absent may be null, or empty."""
    null = dict.fromkeys(("nodeSelector", "os", "affinity", "securityContext", "initContainers", "volumes"))
    container = {"name": "a", **dict.fromkeys(("env", "ports", "lifecycle", "livenessProbe"))}
    for good in (pod(), pod(null), pod({"containers": [container]}), pod({"affinity": _terms({})})):
        assert check_pod(good) is good


@pytest.mark.parametrize(
    "odd",
    [
        None,
        [],
        {},
        {"spec": None},
        {"spec": {}},
        {"spec": {"containers": []}},
        {"spec": {"containers": {"a": 1}}},
        {"spec": {"containers": ["a"]}},
        {"spec": {"containers": [{"env": {"a": 1}}]}},
        {"spec": {"containers": [{"name": ["a"]}]}},
        {"spec": {"containers": [{"livenessProbe": {"httpGet": 1}}]}},
        {"spec": {"containers": [{"lifecycle": {"preStop": 1}}]}},
        {"spec": {"containers": [{"lifecycle": {"postStart": {"tcpSocket": [1]}}}]}},
        {"spec": {"containers": [{"securityContext": "a"}]}},
        {"spec": {"containers": [{}], "nodeSelector": "a"}},
        {"spec": {"containers": [{}], "securityContext": []}},
        {"spec": {"containers": [{}], "affinity": "a"}},
        {"spec": {"containers": [{}], "affinity": _required({"nodeSelectorTerms": {"a": 1}})}},
        {"spec": {"containers": [{}], "affinity": _required({"nodeSelectorTerms": ["a"]})}},
        {"spec": {"containers": [{}], "affinity": _terms({"matchExpressions": 1})}},
        {"spec": {"containers": [{}], "affinity": _terms({"matchExpressions": [{"values": 1}]})}},
        {"metadata": [], "spec": {"containers": [{}]}},
        {"metadata": {"labels": ["a"]}, "spec": {"containers": [{}]}},
    ],
    ids=repr,
)
def test_what_is_no_pod_is_told(odd: object) -> None:
    """The message names the place that is off."""
    with pytest.raises(NotAPodError, match="must be"):
        check_pod(odd)
