"""Waiting for a revision."""

from typing import Any

import pytest

from control_plane.cli.client import Client
from control_plane.cli.failures import CommandFailed
from control_plane.cli.waiting import Standing, standing, wait_in_force
from tests.unit.control_plane.cli.stub import Stub

SERVING = {"id": "a", "connected": True, "inForce": True, "nack": None}
BEHIND = {**SERVING, "inForce": False}
GONE = {"id": "z", "connected": False, "inForce": False}
REFUSING = {**BEHIND, "id": "r", "nack": "bad\x1b cluster"}


@pytest.mark.parametrize(
    ("sidecars", "found", "settled"),
    [
        ([], Standing(0, 0), True),
        ([SERVING, GONE], Standing(1, 1), True),
        ([SERVING, BEHIND], Standing(2, 1), False),
        ([SERVING, REFUSING], Standing(2, 1, (r"sidecar r refused it: bad\x1b cluster",)), True),
    ],
)
def test_a_standing_counts_who_is_connected(
    sidecars: list[dict[str, Any]], found: Standing, settled: bool
) -> None:
    """Who is gone is not waited for, nor who has refused."""
    assert standing(sidecars, {"state": "accepted"}) == found
    assert found.settled is settled


def test_a_halted_revision_is_settled() -> None:
    """Whatever the sidecars do."""
    assert standing([BEHIND], {"state": "halted", "reason": "no"}) == Standing(1, 0, (), "no")
    assert standing([BEHIND], {"state": "halted", "reason": "no"}).settled


def waited(stub: Stub, *steps: list[dict[str, Any]], timeout_s: float = 20, **revision: str) -> None:
    """Wait for revision 7 while the sidecars are as `steps` say, one after the other."""
    for items in steps:
        stub.answer("GET /api/v1/sidecars", {"items": items})
    stub.answer("GET /api/v1/revisions", {"items": [{"revision": 7, **revision}]})
    with Client(stub.url) as client:
        wait_in_force(client, 7, timeout_s)


def test_it_waits_until_all_serve_it(stub: Stub, capsys: pytest.CaptureFixture[str]) -> None:
    """And looks twice: the first time the change may not have begun to spread."""
    waited(stub, [SERVING], [BEHIND], [SERVING], [SERVING])
    assert "revision 7 is in force on 1 of 1 connected sidecar" in capsys.readouterr().err
    assert [seen.target for seen in stub.seen].count("/api/v1/sidecars") == 4


def test_a_halt_ends_it(stub: Stub) -> None:
    """At once, with the reason."""
    with pytest.raises(CommandFailed) as failed:
        waited(stub, [BEHIND], state="halted", reason="Envoy refused it")
    assert str(failed.value) == ("revision 7 is halted and the one before stays in force: Envoy refused it")


def test_a_refusal_fails_when_the_others_are_done(stub: Stub) -> None:
    """Named with its reason."""
    with pytest.raises(CommandFailed, match="in force on 1 of 2 connected sidecars\nsidecar r refused it"):
        waited(stub, [SERVING, REFUSING])


def test_the_time_is_bounded(stub: Stub) -> None:
    """What is missing can be looked up."""
    with pytest.raises(CommandFailed, match=r"after 0\.5 s; see which with outrigger status"):
        waited(stub, [BEHIND], timeout_s=0.5)
