"""When the mesh is ready."""

from control_plane.api.health import readiness
from control_plane.push.subscribers import Identity, Subscribers
from control_plane.resources.compile import compile_snapshot
from control_plane.resources.documents import Documents


def following() -> Subscribers:
    """Return subscribers with an empty policy in force."""
    subscribers = Subscribers()
    subscribers.publish(lambda workload: compile_snapshot(Documents(), workload, 1))
    return subscribers


def test_a_control_plane_that_waits_for_nobody_is_ready() -> None:
    """Zero sidecars asked for, zero needed."""
    assert readiness(following(), 0).ready


def test_the_reason_says_what_is_missing() -> None:
    """First the connection, then the acknowledgement; a refusal is told with its reason."""
    subscribers = following()
    assert readiness(subscribers, 1).reason == "0 of 1 sidecars connected"
    subscriber = subscribers.connect(Identity("local", "default"))
    push = subscribers.next_push(subscriber)
    assert push is not None
    assert readiness(subscribers, 1).reason == "0 of 1 sidecars serve the current snapshot"
    subscribers.refuse(subscriber, push.version, "cluster x: bad address")
    assert readiness(subscribers, 1).reason == "sidecar local refused: cluster x: bad address"
    subscribers.acknowledge(subscriber, push.version, push.version)
    found = readiness(subscribers, 1)
    assert (found.ready, found.sidecars, found.reason) == (True, 1, "")
