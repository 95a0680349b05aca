"""`outrigger token`."""

import json

import pytest

from tests.unit.control_plane.cli.conftest import Run
from tests.unit.control_plane.cli.stub import Stub

MADE = {"id": "5f2c", "name": "ci", "role": "editor", "scopes": [], "token": "ort_5f2c_x"}


def test_the_token_stands_alone_on_stdout(stub: Stub, run: Run) -> None:
    """So that `export OUTRIGGER_TOKEN=$(…)` takes it."""
    stub.answer("POST /api/v1/tokens", MADE, 201)
    status, out, err = run("token", "create", "--role", "editor", "--name", "ci", "--scope", "models:write")
    assert (status, out) == (0, "ort_5f2c_x\n")
    assert "5f2c" in err
    assert "ort_" not in err
    assert stub.seen[0].json == {"name": "ci", "role": "editor", "scopes": ["models:write"]}


def test_a_token_needs_a_role_only(stub: Stub, run: Run) -> None:
    """It gets a name that says whose it is; an end is sent as a time."""
    stub.answer("POST /api/v1/tokens", MADE, 201)
    assert json.loads(run("token", "create", "--role", "viewer", "--expires", "30d", "-o", "json")[1]) == MADE
    sent = stub.seen[0].json
    assert sent["name"].startswith("viewer-")
    assert sent["expiresAt"].endswith("Z")


def test_tokens_are_listed_and_revoked(stub: Stub, run: Run) -> None:
    """Without their text."""
    stub.answer("GET /api/v1/tokens", {"items": [{**MADE, "createdAt": "2026-01-31T08:00:00.1Z"}]})
    stub.answer("DELETE /api/v1/tokens/5f2c", None, 204)
    _, out, _ = run("token", "list")
    assert out.splitlines()[1].split() == ["5f2c", "ci", "editor", "–", "2026-01-31T08:00:00Z", "–", "–"]
    assert run("token", "revoke", "5f2c") == (0, "token 5f2c revoked\n", "")


@pytest.mark.parametrize(
    "options", [(), ("--role", "king"), ("--role", "viewer", "--expires", "soon"), ("--token", "x")]
)
def test_wrong_usage_ends_with_two(options: tuple[str, ...], stub: Stub, run: Run) -> None:
    """Nothing is made."""
    assert run("token", "create", *options)[0] == 2
    assert stub.seen == []
