"""`outrigger key`."""

import json

from tests.unit.control_plane.cli.conftest import Run
from tests.unit.control_plane.cli.stub import Stub

KEYS = "/api/v1/consumers/team-a/keys"
MADE = {"id": "k7", "consumer": "team-a", "key": "ork_x", "expiresAt": None}


def test_the_key_stands_alone_on_stdout(stub: Stub, run: Run) -> None:
    """It is shown this once; without an end there is no body."""
    stub.answer(f"POST {KEYS}", MADE, 201)
    status, out, err = run("key", "create", "team-a")
    assert (status, out) == (0, "ork_x\n")
    assert err == "key k7 of Consumer/team-a is shown this once\n"
    assert stub.seen[0].body == b""


def test_a_key_may_end(stub: Stub, run: Run) -> None:
    """At a time in UTC."""
    stub.answer(f"POST {KEYS}", {**MADE, "expiresAt": "2099-01-01T00:00:00Z"}, 201)
    _, _, err = run("key", "create", "team-a", "--expires", "2099-01-01")
    assert stub.seen[0].json == {"expiresAt": "2099-01-01T00:00:00Z"}
    assert err.endswith("good until 2099-01-01T00:00:00Z\n")


def test_rotation_leaves_the_old_one_some_time(stub: Stub, run: Run) -> None:
    """A day unless another overlap is given."""
    stub.answer(f"POST {KEYS}/k6/rotate", MADE, 201)
    assert run("key", "rotate", "team-a", "k6")[1] == "ork_x\n"
    assert json.loads(run("key", "rotate", "team-a", "k6", "--overlap", "1h", "-o", "json")[1]) == MADE
    assert [seen.json for seen in stub.seen] == [{"overlap": "24h"}, {"overlap": "1h"}]


def test_keys_are_listed_and_revoked(stub: Stub, run: Run) -> None:
    """By their last characters."""
    info = {"id": "k7", "consumer": "team-a", "hint": "…once", "createdAt": "2026-01-31T08:00:00Z"}
    stub.answer(f"GET {KEYS}", {"items": [info]})
    stub.answer(f"DELETE {KEYS}/k7", None, 204)
    assert run("key", "list", "team-a")[1].splitlines()[1].split()[:3] == ["k7", "team-a", "…once"]
    assert run("key", "revoke", "team-a", "k7") == (0, "key k7 of Consumer/team-a revoked\n", "")
