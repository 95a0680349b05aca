"""`outrigger history` and `outrigger rollback`."""

import json
from typing import Any

import pytest

from control_plane.cli.history import PAGE
from tests.unit.control_plane.cli.conftest import Run
from tests.unit.control_plane.cli.stub import Stub

REVISIONS = "GET /api/v1/revisions"


def revision(number: int, *documents: str) -> dict[str, Any]:
    """Return a revision that updated documents."""
    return {
        "revision": number,
        "at": "2026-01-31T08:00:00.123Z",
        "actor": "ci",
        "action": "apply",
        "state": "accepted",
        "reason": "",
        "changes": [{"document": document, "action": "update"} for document in documents],
    }


def test_revisions_are_a_table(stub: Stub, run: Run) -> None:
    """Who changed what, and when."""
    stub.answer(REVISIONS, {"items": [revision(2, "Model/m")]})
    status, out, _ = run("history")
    assert status == 0
    assert out.splitlines()[1].split() == ["2", "2026-01-31T08:00:00Z", "ci", "apply", "accepted", "~Model/m"]
    assert stub.seen[0].target == "/api/v1/revisions?limit=20"


def test_a_document_has_its_own_history(stub: Stub, run: Run) -> None:
    """As far back as it takes, page by page."""
    stub.answer(REVISIONS, {"items": [revision(n, "Model/n") for n in range(PAGE + 5, 5, -1)]})
    stub.answer(REVISIONS, {"items": [revision(5, "Model/m", "Model/n"), revision(4, "Tier/m")]})
    status, out, _ = run("history", "models", "m", "-o", "json")
    assert status == 0
    assert [item["revision"] for item in json.loads(out)["items"]] == [5]
    assert [seen.target for seen in stub.seen] == [
        f"/api/v1/revisions?limit={PAGE}",
        f"/api/v1/revisions?limit={PAGE}&before=6",
    ]


def test_no_history_is_told(stub: Stub, run: Run) -> None:
    """On stderr."""
    stub.answer(REVISIONS, {"items": [revision(1, "Tier/t")]})
    assert run("history", "models", "m") == (0, "", "no revision changed it\n")


@pytest.mark.parametrize(("about", "lines"), [((), 4), (("tiers",), 1), (("models", "m"), 3)])
def test_a_revision_can_be_looked_into(about: tuple[str, ...], lines: int, stub: Stub, run: Run) -> None:
    """All of it, or what it changed of one kind or document."""
    field = {"field": "spec.aliases", "before": ["a"], "after": ["b"]}
    changes = [
        {"document": "Model/m", "action": "update", "fields": [field]},
        {"document": "Tier/t", "action": "delete", "fields": []},
    ]
    stub.answer("GET /api/v1/revisions/7/diff", {"revision": 7, "against": 3, "changes": changes})
    status, out, _ = run("history", *about, "--diff", "7", "--against", "3")
    assert (status, len(out.splitlines())) == (0, lines)
    assert stub.seen[0].target == "/api/v1/revisions/7/diff?against=3"


def test_a_rollback_says_what_it_did(stub: Stub, run: Run) -> None:
    """As a new revision."""
    change = {"document": "Model/m", "action": "delete", "fields": []}
    stub.answer("POST /api/v1/revisions/3/rollback", {"revision": 8, "changes": [change], "warnings": []})
    assert run("rollback", "3") == (0, "- Model/m\nrevision 8, as revision 3 was: 1 deleted\n", "")


@pytest.mark.parametrize(
    "arguments",
    [
        ("history", "--against", "3"),
        ("history", "nonsense"),
        ("history", "--diff", "0"),
        ("rollback",),
        ("rollback", "last"),
    ],
)
def test_wrong_usage_ends_with_two(arguments: tuple[str, ...], stub: Stub, run: Run) -> None:
    """Before anything is asked."""
    assert run(*arguments)[0] == 2
    assert stub.seen == []
