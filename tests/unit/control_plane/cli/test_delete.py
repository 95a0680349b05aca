"""`outrigger delete`."""

from tests.unit.control_plane.cli.conftest import Run
from tests.unit.control_plane.cli.stub import Stub


def test_a_document_is_deleted(stub: Stub, run: Run) -> None:
    """It is named; with -o json there is nothing to print."""
    stub.answer("DELETE /api/v1/models/m", None, 204)
    assert run("delete", "model", "m") == (0, "Model/m deleted\n", "")
    assert run("delete", "models", "m", "-o", "json") == (0, "", "")


def test_what_is_in_use_lists_its_users(stub: Stub, run: Run) -> None:
    """Each with the field that names it."""
    user = {"document": "Model/m", "field": "spec.versions[0].backend", "message": "names Backend/b"}
    stub.problem("DELETE /api/v1/backends/b", 409, "Backend/b is in use by Model/m", user)
    status, out, err = run("delete", "backends", "b")
    assert (status, out) == (1, "")
    assert err.splitlines() == [
        "outrigger: Backend/b is in use by Model/m",
        "  Model/m: spec.versions[0].backend: names Backend/b",
    ]


def test_what_is_no_document_is_wrong_usage(stub: Stub, run: Run) -> None:
    """Sidecars cannot be deleted."""
    assert run("delete", "sidecars", "x")[0] == 2
    assert stub.seen == []
