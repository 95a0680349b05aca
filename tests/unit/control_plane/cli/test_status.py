"""`outrigger status`."""

from typing import Any

import pytest

from control_plane.cli.status import headline
from tests.unit.control_plane.cli.conftest import Run
from tests.unit.control_plane.cli.stub import Stub

SERVING = {
    "id": "shop-1",
    "workload": "shop",
    "connected": True,
    "inForce": True,
    "pushed": "r7-0f3a",
    "acknowledged": "r7-0f3a",
    "nack": None,
    "envoy": "live",
    "envoyVersion": "1.40.0",
    "build": "0.1.0",
}
REFUSING = {**SERVING, "id": "shop-2", "inForce": False, "acknowledged": "r6-1", "nack": "no such cluster"}


def test_every_sidecar_is_a_row(stub: Stub, run: Run) -> None:
    """Below how far the newest revision has come; status 0 whatever the sidecars do."""
    stub.answer("GET /api/v1/sidecars", {"items": [SERVING, REFUSING]})
    stub.answer("GET /api/v1/revisions", {"items": [{"revision": 7, "state": "accepted"}]})
    status, out, err = run("status")
    assert (status, err) == (0, "")
    first, _, head, one, two = out.splitlines()
    assert first == "revision 7 is in force on 1 of 2 connected sidecars"
    assert head.split()[:3] == ["SIDECAR", "WORKLOAD", "STATE"]
    assert one.split() == [
        *("shop-1", "shop", "in", "force", "r7-0f3a", "yes", "live", "1.40.0", "0.1.0", "–")
    ]
    assert two.endswith("no such cluster")


def test_json_is_what_the_api_answers(stub: Stub, run: Run) -> None:
    """One call, one answer."""
    stub.answer("GET /api/v1/sidecars", b'{"items" : []}')
    assert run("status", "-o", "json") == (0, '{"items" : []}\n', "")
    assert len(stub.seen) == 1


@pytest.mark.parametrize(
    ("newest", "sidecars", "line"),
    [
        ([], [], "no policy yet; 0 sidecars"),
        ([{"revision": 1}], [], "revision 1; no sidecar is connected"),
        (
            [{"revision": 8, "state": "halted", "reason": "no"}],
            [SERVING],
            "revision 8 is halted, the one before stays in force: no",
        ),
    ],
)
def test_the_first_line_says_how_far_it_is(
    newest: list[dict[str, Any]], sidecars: list[dict[str, Any]], line: str
) -> None:
    """In words."""
    assert headline(newest, sidecars) == line
