"""The part of a Policy that is tuned."""

from typing import Any

import pytest

from control_plane.tools.tune.policies import NotBatching, bare, changes, check_batching, with_setting
from control_plane.tools.tune.settings import Setting

POLICY: dict[str, Any] = {
    "apiVersion": "outrigger.dev/v1alpha1",
    "kind": "Policy",
    "metadata": {"name": "p", "revision": 3},
    "spec": {"cache": {"enabled": True}, "batch": {"mode": "native", "maxSize": 5}},
    "status": {"x": 1},
}


def test_only_size_and_window_are_written() -> None:
    """The document that came is left as it is; what only the server adds is not sent back."""
    made = with_setting(POLICY, Setting(10, 50))
    assert made == {
        "apiVersion": "outrigger.dev/v1alpha1",
        "kind": "Policy",
        "metadata": {"name": "p"},
        "spec": {
            "cache": {"enabled": True},
            "batch": {"mode": "native", "maxSize": 10, "maxWait": "50ms"},
        },
    }
    assert POLICY["spec"]["batch"]["maxSize"] == 5
    assert "apiVersion" not in bare({**POLICY, "apiVersion": None})


def test_a_split_below_the_size_is_raised() -> None:
    """Else the size would not be what is tried; a window that is not tuned stays."""
    batch = with_setting(POLICY, Setting(50))["spec"]["batch"]
    assert batch == {"mode": "native", "maxSize": 50, "splitAbove": 50}
    roomy = {**POLICY, "spec": {"batch": {"mode": "native", "splitAbove": 90}}}
    assert with_setting(roomy, Setting(50))["spec"]["batch"]["splitAbove"] == 90


def test_changes_are_told_by_field() -> None:
    """What was not set was the default."""
    made = with_setting(POLICY, Setting(50, 200))
    assert changes(bare(POLICY), made) == [
        {"field": "spec.batch.maxSize", "before": 5, "after": 50},
        {"field": "spec.batch.maxWait", "before": None, "after": "200ms"},
        {"field": "spec.batch.splitAbove", "before": None, "after": 50},
    ]
    assert changes(made, made) == []


@pytest.mark.parametrize("spec", [None, {}, {"batch": {}}, {"batch": {"mode": "none"}}])
def test_a_policy_that_does_not_batch_is_refused(spec: Any) -> None:
    """Its sizes have no effect."""
    with pytest.raises(NotBatching, match=r"batch\.mode"):
        check_batching({**POLICY, "spec": spec})
    check_batching(POLICY)
