"""History over real HTTP: what changed, who did it, and the way back."""

import httpx
import pytest

from control_plane.auth.roles import Role
from tests.contract.control_plane.api.papers import backend, model
from tests.contract.control_plane.api.served import Served


@pytest.fixture
async def history(admin: httpx.AsyncClient) -> httpx.AsyncClient:
    """Return a client of an API with three revisions."""
    await admin.post("/api/v1/apply", json=[backend(), model()])
    await admin.put("/api/v1/backends/openai", json=backend(default=True))
    await admin.delete("/api/v1/models/mini")
    return admin


async def test_revisions_newest_first_in_pages(history: httpx.AsyncClient) -> None:
    """Each with who, when, what and from where."""
    first = (await history.get("/api/v1/revisions", params={"limit": 2})).json()["items"]
    rest = (await history.get("/api/v1/revisions", params={"before": 2})).json()["items"]
    assert [item["revision"] for item in first + rest] == [3, 2, 1]
    newest = first[0]
    assert (newest["actor"], newest["source"], newest["action"], newest["state"]) == (
        "admin",
        "127.0.0.1",
        "delete",
        "accepted",
    )
    assert newest["at"].endswith("Z")
    assert newest["changes"] == [{"document": "Model/mini", "action": "delete"}]


async def test_one_revision_and_differences(history: httpx.AsyncClient) -> None:
    """Field by field; against the one before, any other, or the empty beginning."""
    field = {"field": "spec.default", "before": None, "after": True}
    change = {"document": "Backend/openai", "action": "update", "fields": [field]}
    assert (await history.get("/api/v1/revisions/2")).json()["changes"] == [change]
    assert (await history.get("/api/v1/revisions/2/diff")).json() == {
        "revision": 2,
        "against": 1,
        "changes": [change],
    }
    backwards = (await history.get("/api/v1/revisions/1/diff", params={"against": 3})).json()
    assert {(item["document"], item["action"]) for item in backwards["changes"]} == {
        ("Backend/openai", "update"),
        ("Model/mini", "create"),
    }
    whole = (await history.get("/api/v1/revisions/3/diff", params={"against": 0})).json()
    assert [item["document"] for item in whole["changes"]] == ["Backend/openai"]


async def test_rolling_back_is_a_new_revision(history: httpx.AsyncClient) -> None:
    """The documents are what they were; the history goes on."""
    answer = await history.post("/api/v1/revisions/1/rollback")
    assert (answer.status_code, answer.json()["revision"]) == (200, 4)
    assert (await history.get("/api/v1/backends/openai")).json() == backend()
    assert (await history.get("/api/v1/models/mini")).json() == model()
    newest = (await history.get("/api/v1/revisions/4")).json()
    assert (newest["action"], newest["rolledBackTo"]) == ("rollback", 1)


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "99", 404),
        ("GET", "99/diff", 404),
        ("GET", "1/diff?against=99", 404),
        ("POST", "99/rollback", 404),
        ("GET", "0", 422),
        ("GET", "-1", 422),
        ("GET", "one", 422),
        ("GET", "9" * 30, 422),
        ("GET", "1/diff?against=x", 422),
        ("GET", "?limit=501", 422),
        ("GET", "?before=0", 422),
    ],
)
async def test_numbers_that_are_none(visitor: httpx.AsyncClient, method: str, path: str, status: int) -> None:
    """404 where there is none, 422 where it cannot be one."""
    assert (await visitor.post("/api/v1/apply", json=[backend()])).json()["revision"] == 1
    joined = "/api/v1/revisions" + (path if path.startswith("?") else f"/{path}")
    answer = await visitor.request(method, joined)
    assert (answer.status_code, answer.headers["content-type"]) == (status, "application/problem+json")


async def test_the_audit_has_who_what_when_and_from_where(served: Served, history: httpx.AsyncClient) -> None:
    """Of changes, and of attempts that were refused."""
    async with served.client(await served.token(Role.VIEWER)) as viewer:
        await viewer.delete("/api/v1/backends/openai")
        rows = (await viewer.get("/api/v1/audit", params={"limit": 3})).json()["items"]
    refused = rows[0]
    assert (refused["role"], refused["source"], refused["action"], refused["target"]) == (
        "viewer",
        "127.0.0.1",
        "delete",
        "/api/v1/backends/openai",
    )
    assert (refused["outcome"], refused["revision"]) == ("forbidden", None)
    assert "needs the role editor" in refused["detail"]
    older = (await history.get("/api/v1/audit", params={"before": refused["id"]})).json()["items"]
    assert [row["id"] for row in older] == sorted((row["id"] for row in older), reverse=True)
    assert all(row["id"] < refused["id"] for row in older)
    deletion = next(row for row in older if row["action"] == "delete")
    assert (deletion["actor"], deletion["target"], deletion["revision"], deletion["outcome"]) == (
        "admin",
        "Model/mini",
        3,
        "ok",
    )
