"""`outrigger apply` and `outrigger diff`."""

import json
from pathlib import Path
from typing import Any

import pytest
import typer

from control_plane.cli.apply import seconds
from tests.unit.control_plane.cli.conftest import Run
from tests.unit.control_plane.cli.stub import Stub

APPLY = "POST /api/v1/apply"
TEXT = "kind: Tier\nmetadata: {name: t}\nspec: {priority: 5}\n"
UPDATE = {
    "document": "Tier/t",
    "action": "update",
    "fields": [{"field": "spec.priority", "before": 1, "after": 5}],
}
SAME = {"document": "Tier/t", "action": "unchanged", "fields": []}


def answered(*changes: dict[str, Any], dry_run: bool = False) -> dict[str, Any]:
    """Return what the API answers to an apply."""
    warning = {"document": "Tier/t", "field": "spec.priority", "message": "has no effect yet"}
    return {"revision": 7, "dryRun": dry_run, "changes": list(changes), "warnings": [warning]}


@pytest.fixture
def file(tmp_path: Path) -> str:
    """Return a file of one document."""
    (tmp_path / "p.yaml").write_text(TEXT)
    return str(tmp_path / "p.yaml")


def test_documents_go_up_as_one_list(stub: Stub, run: Run, file: str) -> None:
    """What changed and the revision come back; warnings are on stderr."""
    stub.answer(APPLY, answered(UPDATE))
    status, out, err = run("apply", "-f", file, "-f", file)
    assert err == "warning: Tier/t: spec.priority: has no effect yet\n"
    assert (status, out) == (0, "~ Tier/t  (1 field)\nrevision 7: 1 updated\n")
    (seen,) = stub.seen
    assert seen.target == "/api/v1/apply"
    assert [document["metadata"]["name"] for document in seen.json] == ["t", "t"]


def test_a_folder_goes_up_as_one(stub: Stub, run: Run, file: str) -> None:
    """All documents of its files in one request, so that it is all or nothing."""
    folder = Path(file).parent
    (folder / "team").mkdir()
    (folder / "team" / "q.json").write_text('[{"kind": "Tier", "metadata": {"name": "u"}, "spec": {}}]')
    stub.answer(APPLY, answered(UPDATE, dry_run=True))
    assert run("diff", "-f", str(folder))[0] == 1
    assert [document["metadata"]["name"] for document in stub.seen[0].json] == ["t", "u"]


def test_a_dry_run_shows_the_fields(stub: Stub, run: Run, file: str) -> None:
    """And asks the API for no more than that."""
    stub.answer(APPLY, answered(UPDATE, dry_run=True))
    status, out, _ = run("apply", "-f", file, "--dry-run")
    assert status == 0
    assert out.splitlines() == [
        "~ Tier/t",
        "  - spec.priority: 1",
        "  + spec.priority: 5",
        "dry run, nothing is written: 1 updated",
    ]
    assert stub.seen[0].target == "/api/v1/apply?dryRun=true"


def test_only_the_first_warnings_are_shown(stub: Stub, run: Run, file: str) -> None:
    """Thousands of documents do not flood the terminal."""
    many = answered(UPDATE)
    many["warnings"] *= 100
    stub.answer(APPLY, many)
    lines = run("apply", "-f", file)[2].splitlines()
    assert len(lines) == 21
    assert lines[-1] == "warning: 80 more of these; outrigger validate names them"


@pytest.mark.parametrize(("changes", "status"), [((UPDATE,), 1), ((SAME,), 0)])
def test_diff_ends_with_one_when_something_differs(
    changes: tuple[dict[str, Any], ...], status: int, stub: Stub, run: Run, file: str
) -> None:
    """Nothing is printed when nothing does; the server changes nothing either way."""
    stub.answer(APPLY, answered(*changes, dry_run=True))
    ended, out, _ = run("diff", "-f", file)
    assert ended == status
    assert out.splitlines() == (
        ["~ Tier/t", "  - spec.priority: 1", "  + spec.priority: 5"] if status else []
    )
    assert stub.seen[0].target.endswith("?dryRun=true")
    ended, out, _ = run("diff", "-f", file, "-o", "json")
    assert (ended, json.loads(out)["revision"]) == (status, 7)


def test_a_refusal_names_file_and_line(stub: Stub, run: Run, file: str) -> None:
    """Field by field, exit status 1, stdout empty."""
    error = {"document": "Tier/t", "field": "spec.priority", "message": "must be a whole number"}
    stub.problem(APPLY, 422, "1 document is refused", error)
    for command in ("apply", "diff"):
        assert run(command, "-f", file) == (
            1,
            "",
            f"outrigger: 1 document is refused\n  {file}:3: Tier/t: spec.priority: must be a whole number\n",
        )


def test_waiting_ends_when_it_is_in_force(stub: Stub, run: Run, file: str) -> None:
    """The result first, then the wait."""
    stub.answer(APPLY, answered(UPDATE))
    stub.answer("GET /api/v1/sidecars", {"items": [{"id": "a", "connected": True, "inForce": True}]})
    stub.answer("GET /api/v1/revisions", {"items": [{"revision": 7, "state": "accepted"}]})
    status, out, err = run("apply", "-f", file, "--wait", "--timeout", "5s")
    assert status == 0
    assert out.endswith("revision 7: 1 updated\n")
    assert "revision 7 is in force on 1 of 1 connected sidecar" in err


@pytest.mark.parametrize(
    "options", [("--wait", "--dry-run"), ("--timeout", "soon"), ("--timeout", "0s"), ("--server", "nowhere")]
)
def test_wrong_usage_ends_with_two(options: tuple[str, ...], stub: Stub, run: Run, file: str) -> None:
    """Before anything is sent."""
    assert run("apply", "-f", file, *options)[0] == 2
    assert stub.seen == []


@pytest.mark.parametrize(("text", "value"), [("500ms", 0.5), ("30s", 30), ("1m30s", 90), ("0.5h", 1800)])
def test_durations(text: str, value: float) -> None:
    """As documents write them."""
    assert seconds(text) == value


@pytest.mark.parametrize("text", ["", "30", "s", "-1s", "1d", "1s "])
def test_what_is_no_duration(text: str) -> None:
    """Is wrong usage."""
    with pytest.raises(typer.BadParameter):
        seconds(text)
