"""Who is sent what."""

from collections.abc import Callable
from dataclasses import replace

from control_plane.push.subscribers import MAX_REMEMBERED, Identity, Refusal, Subscribers
from ext_proc.contract.snapshot import Snapshot, content_version, decode


def compiler(revision: int) -> Callable[[str], Snapshot]:
    """Return a policy that differs by `revision` and workload only."""

    def compile_for(workload: str) -> Snapshot:
        blank = Snapshot(version="", revision=revision, workload=workload)
        return replace(blank, version=content_version(blank))

    return compile_for


def test_nothing_is_pushed_before_the_first_policy() -> None:
    """A control plane without a policy does not send an empty one."""
    subscribers = Subscribers()
    assert subscribers.next_push(subscribers.connect(Identity("a", "web"))) is None


def test_each_workload_gets_its_own_snapshot_once() -> None:
    """Two workloads, two snapshots; what was sent is not sent again."""
    subscribers = Subscribers()
    subscribers.publish(compiler(1))
    web, shop = (subscribers.connect(Identity(name, name)) for name in ("web", "shop"))
    pushes = [subscribers.next_push(web), subscribers.next_push(shop)]
    assert [decode(push.content).workload for push in pushes if push] == ["web", "shop"]
    assert subscribers.next_push(web) is None


def test_the_newest_policy_wins() -> None:
    """A slow subscriber skips what it missed."""
    subscribers = Subscribers()
    subscriber = subscribers.connect(Identity("a", "web"))
    for revision in (1, 2, 3):
        subscribers.publish(compiler(revision))
    assert subscriber.changed.is_set()
    push = subscribers.next_push(subscriber)
    assert push is not None
    assert push.revision == 3


def test_a_refused_version_is_never_sent_again() -> None:
    """Not on the same stream, not after a reconnect; the next version is sent."""
    subscribers = Subscribers()
    subscribers.publish(compiler(1))
    first = subscribers.connect(Identity("a", "web"))
    push = subscribers.next_push(first)
    assert push is not None
    subscribers.refuse(first, push.version, "no such cluster")
    subscribers.disconnect(first)
    again = subscribers.connect(Identity("a", "web"))
    assert subscribers.next_push(again) is None
    assert again.refusal == Refusal(push.version, "no such cluster")
    other = subscribers.connect(Identity("b", "web"))
    assert subscribers.next_push(other) == push
    subscribers.publish(compiler(2))
    newer = subscribers.next_push(again)
    assert newer is not None
    subscribers.acknowledge(again, newer.version, newer.version)
    assert again.refusal is None


def test_an_older_acknowledgement_undoes_no_refusal() -> None:
    """A sidecar acknowledges the old version again when old exchanges end."""
    subscribers = Subscribers()
    subscribers.publish(compiler(1))
    subscriber = subscribers.connect(Identity("a", "web"))
    old = subscribers.next_push(subscriber)
    assert old is not None
    subscribers.acknowledge(subscriber, old.version, old.version)
    subscribers.publish(compiler(2))
    new = subscribers.next_push(subscriber)
    assert new is not None
    subscribers.refuse(subscriber, new.version, "bad")
    subscribers.acknowledge(subscriber, old.version, old.version)
    assert subscriber.refusal == Refusal(new.version, "bad")
    assert subscribers.in_force() == []


def test_in_force_are_the_connected_that_acknowledged_the_current_version() -> None:
    """Acknowledging an older version, or having gone, does not count."""
    subscribers = Subscribers()
    subscribers.publish(compiler(1))
    subscriber = subscribers.connect(Identity("a", "web"))
    push = subscribers.next_push(subscriber)
    assert push is not None
    assert subscribers.in_force() == []
    subscribers.acknowledge(subscriber, push.version, push.version)
    assert subscribers.in_force() == [subscriber]
    subscribers.publish(compiler(2))
    assert subscribers.in_force() == []
    subscribers.publish(compiler(1))
    subscribers.disconnect(subscriber)
    assert subscribers.in_force() == []


def test_a_second_connection_of_one_id_supersedes_the_first() -> None:
    """A sidecar that reconnects before its old stream is found dead is one sidecar."""
    subscribers = Subscribers()
    first = subscribers.connect(Identity("a", "web"))
    first.changed.clear()
    second = subscribers.connect(Identity("a", "web"))
    assert (first.connected, first.changed.is_set()) == (False, True)
    subscribers.disconnect(first)
    assert subscribers.by_id == {"a": second}
    assert second.connected


def test_those_who_have_gone_are_forgotten_in_the_end() -> None:
    """Pods come and go; the memory of them is bounded."""
    subscribers = Subscribers()
    for number in range(MAX_REMEMBERED + 10):
        subscribers.disconnect(subscribers.connect(Identity(str(number), "web")))
    assert len(subscribers.by_id) <= MAX_REMEMBERED + 1
    assert str(MAX_REMEMBERED + 9) in subscribers.by_id
