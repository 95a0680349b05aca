"""Consumer keys over real HTTP: shown once, and nowhere else."""

import httpx
import pytest

from tests.contract.control_plane.api.papers import backend, consumer
from tests.contract.control_plane.api.served import Served, read

KEYS = "/api/v1/consumers/team-a/keys"


@pytest.fixture
async def owner(admin: httpx.AsyncClient) -> httpx.AsyncClient:
    """Return a client of an API with one Consumer."""
    await admin.put("/api/v1/consumers/team-a", json=consumer())
    return admin


async def test_a_key_is_shown_once(served: Served, owner: httpx.AsyncClient) -> None:
    """Neither lists, history, audit, snapshot, metrics nor the files hold it."""
    made = await owner.post(KEYS, json={"expiresAt": "2099-01-31T08:00:00Z"})
    assert made.status_code == 201
    body = made.json()
    key = body["key"]
    assert key.startswith("ork_")
    assert (body["consumer"], body["expiresAt"]) == ("team-a", "2099-01-31T08:00:00Z")
    listed = (await owner.get(KEYS)).json()["items"]
    assert [item["id"] for item in listed] == [body["id"]]
    assert "key" not in listed[0]
    paths = (await owner.get("/openapi.json")).json()["paths"]
    for path in [path for path in paths if "get" in paths[path] and "{" not in path]:
        assert key not in (await read(owner, "GET", path))[1], path
    files = [file for file in served.data_dir.rglob("*") if file.is_file()]
    assert not any(key.encode() in file.read_bytes() for file in files)


async def test_a_key_rotates_and_ends(owner: httpx.AsyncClient) -> None:
    """The old one goes on for the overlap; revoked, it is gone for good."""
    old = (await owner.post(KEYS)).json()
    assert old["expiresAt"] is None
    new = await owner.post(f"{KEYS}/{old['id']}/rotate", json={"overlap": "1h"})
    assert (new.status_code, new.json()["key"] != old["key"]) == (201, True)
    by_id = {item["id"]: item for item in (await owner.get(KEYS)).json()["items"]}
    assert by_id[old["id"]]["expiresAt"] is not None
    assert (await owner.delete(f"{KEYS}/{new.json()['id']}")).status_code == 204
    by_id = {item["id"]: item for item in (await owner.get(KEYS)).json()["items"]}
    assert by_id[new.json()["id"]]["revokedAt"] is not None


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("POST", "/api/v1/consumers/nobody/keys", None, 404),
        ("GET", "/api/v1/consumers/nobody/keys", None, 404),
        ("POST", f"{KEYS}/none/rotate", None, 404),
        ("DELETE", f"{KEYS}/none", None, 404),
        ("POST", KEYS, {"expiresAt": "2001-01-31T08:00:00Z"}, 422),
        ("POST", KEYS, {"expiresAt": "2099-01-31T08:00:00"}, 422),
        ("POST", KEYS, {"expiresAt": "tomorrow"}, 422),
        ("POST", KEYS, {"expiresAt": 4_073_540_000}, 422),
        ("POST", KEYS, {"expires": "2099-01-31T08:00:00Z"}, 422),
        ("POST", f"{KEYS}/none/rotate", {"overlap": "soon"}, 422),
        ("POST", f"{KEYS}/none/rotate", {"overlap": -5}, 422),
        ("POST", KEYS, [], 422),
    ],
)
async def test_wrong_orders(
    visitor: httpx.AsyncClient, method: str, path: str, body: object, status: int
) -> None:
    """404 for what is not there, 422 with the field for what cannot be."""
    await visitor.put("/api/v1/consumers/team-a", json=consumer())
    answer = await visitor.request(method, path, **({} if body is None else {"json": body}))  # type: ignore[arg-type]
    assert answer.status_code == status, answer.text
    if isinstance(body, dict):
        assert next(iter(body)) in {error["field"] for error in answer.json()["errors"]}


async def test_deleting_a_consumer_ends_its_keys(served: Served, owner: httpx.AsyncClient) -> None:
    """And going back does not revive them."""
    await owner.post(KEYS)
    assert len(served.registry.in_force.consumer_keys) == 1
    await owner.delete("/api/v1/consumers/team-a")
    assert len(served.registry.in_force.consumer_keys) == 0
    assert (await owner.post("/api/v1/revisions/1/rollback")).status_code == 200
    assert len(served.registry.in_force.consumer_keys) == 0
    assert (await owner.put("/api/v1/backends/openai", json=backend())).status_code == 201
