"""What one sidecar was given, and what it answered."""

from __future__ import annotations

import pytest

from control_plane.push.parcels import Parcel, Parcels
from control_plane.push.sidecars import REMEMBERED_REFUSALS, REMEMBERED_VERSIONS, Identity, Sidecar
from ext_proc.contract import push_pb2
from tests.unit.control_plane.push.scenes import NOON, policy


def parcel(revision: int, text: str = "") -> Parcel:
    """Return a parcel whose content is `text`."""
    return Parcels(policy(revision, text), b"").of("w")


@pytest.fixture
def sidecar() -> Sidecar:
    """Return one that has just connected."""
    return Sidecar(Identity("a", "w"), NOON, lambda: None)


def test_what_it_will_hold_is_not_due_again(sidecar: Sidecar) -> None:
    """Neither before its answer nor after; another revision of the same content is not due either."""
    one = parcel(1, "one")
    assert sidecar.due(one)
    sidecar.send(one)
    assert not sidecar.due(one)
    sidecar.accept(one.version, 1.0)
    assert not sidecar.due(parcel(2, "one"))
    assert sidecar.due(parcel(3, "two"))
    assert (sidecar.holds, sidecar.answered_s) == (one.content, 1.0)


def test_after_a_refusal_it_holds_what_it_held(sidecar: Sidecar) -> None:
    """The one before is not due, the refused content never again."""
    one, two = parcel(1, "one"), parcel(2, "two")
    for sent in (one, two):
        sidecar.send(sent)
        if sent is one:
            sidecar.accept(one.version, 1.0)
    refusal = sidecar.refuse(two.version, "no", 2.0)
    assert refusal is not None
    assert (refusal.sent.revision, refusal.reason) == (2, "no")
    assert not sidecar.due(one)
    assert not sidecar.due(parcel(9, "two"))


def test_one_that_took_a_halted_revision_is_due_the_one_before(sidecar: Sidecar) -> None:
    """Whether it has answered yet or not."""
    one, two = parcel(1, "one"), parcel(2, "two")
    sidecar.send(one)
    sidecar.accept(one.version, 1.0)
    sidecar.send(two)
    assert sidecar.due(one)
    sidecar.accept(two.version, 1.0)
    assert sidecar.due(one)


def test_what_it_said_it_holds_is_kept_in_the_first_message_only(sidecar: Sidecar) -> None:
    """Later it holds what was sent."""
    one, two = parcel(1, "one"), parcel(2, "two")
    sidecar.identity = Identity("a", "w", in_force=one.version, keeps=True)
    kept = [push_pb2.Snapshot.FromString(sidecar.send(sent)).kept for sent in (one, two, one)]
    assert kept == [True, False, False]


def test_a_refusal_is_forgiven_by_a_later_revision(sidecar: Sidecar) -> None:
    """Not by one before it, and the refused content stays refused."""
    two = parcel(2, "two")
    sidecar.send(two)
    sidecar.refuse(two.version, "no", 1.0)
    sidecar.forgive(2)
    assert sidecar.refusal is not None
    sidecar.forgive(3)
    assert sidecar.refusal is None
    assert not sidecar.due(two)


def test_memory_is_bounded(sidecar: Sidecar) -> None:
    """The oldest is forgotten."""
    first = parcel(0, "0")
    sidecar.send(first)
    for revision in range(1, 40):
        sent = parcel(revision, str(revision))
        sidecar.send(sent)
        sidecar.refuse(sent.version, "no", 1.0)
    assert len(sidecar.refusals) == REMEMBERED_REFUSALS
    assert sidecar.accept(first.version, 1.0) is None
    assert REMEMBERED_VERSIONS < 40


def test_a_connection_takes_over_what_the_one_before_said(sidecar: Sidecar) -> None:
    """Of the same build, refusals too."""
    two = parcel(2, "two")
    sidecar.send(two)
    sidecar.refuse(two.version, "no", 1.0)
    same, other = (Sidecar(Identity("a", "w", build=build), NOON, lambda: None) for build in ("", "2"))
    same.take_over(sidecar)
    other.take_over(sidecar)
    assert (same.due(two), other.due(two)) == (False, True)
    assert (same.answered_s, same.refusal) == (1.0, sidecar.refusal)
