"""Stored provider keys over real HTTP: in by PUT, out by nothing."""

import json

import httpx
import pytest

from tests.contract.control_plane.api.papers import backend
from tests.contract.control_plane.api.served import Served

MARKER = "sk-marker-5f1d0c77"


async def test_a_secret_is_stored_and_never_shown(served: Served, admin: httpx.AsyncClient) -> None:
    """Its name and the names of its values are; no GET, no file and no revision holds the value."""
    order = {"values": {"api-key": MARKER}}
    new = await admin.put("/api/v1/secrets/openai", json=order)
    assert (new.status_code, new.content) == (201, b"")
    assert (await admin.put("/api/v1/secrets/openai", json=order)).status_code == 204
    reference = {"secretRef": {"name": "openai", "key": "api-key"}}
    assert (
        await admin.put("/api/v1/backends/b", json=backend("b", credentials=reference))
    ).status_code == 201
    listed = (await admin.get("/api/v1/secrets")).json()["items"]
    assert [(item["name"], item["keys"]) for item in listed] == [("openai", ["api-key"])]
    paths = (await admin.get("/openapi.json")).json()["paths"]
    for path in [path for path in paths if "get" in paths[path]]:
        answer = await admin.get(path.format(name="openai", number=1, key="0" * 64))
        assert MARKER not in answer.text, path
    files = [file for file in served.data_dir.rglob("*") if file.is_file()]
    assert not any(MARKER.encode() in file.read_bytes() for file in files)
    assert served.registry.in_force.secrets["openai", "api-key"] == MARKER.encode()


async def test_a_secret_in_use_is_not_deleted(admin: httpx.AsyncClient) -> None:
    """409 with the Backend that names it; without one it goes, and then there is none."""
    await admin.put("/api/v1/secrets/openai", json={"values": {"k": "v"}})
    reference = {"secretRef": {"name": "openai", "key": "k"}}
    await admin.put("/api/v1/backends/b", json=backend("b", credentials=reference))
    used = await admin.delete("/api/v1/secrets/openai")
    assert (used.status_code, used.json()["errors"][0]["document"]) == (409, "Backend/b")
    await admin.delete("/api/v1/backends/b")
    assert (await admin.delete("/api/v1/secrets/openai")).status_code == 204
    assert (await admin.delete("/api/v1/secrets/openai")).status_code == 404


async def test_rotating_the_encryption_keeps_the_values(served: Served, admin: httpx.AsyncClient) -> None:
    """The answer says how many there are."""
    await admin.put("/api/v1/secrets/openai", json={"values": {"a": "1", "b": "2"}})
    answer = await admin.post("/api/v1/secrets/rotate")
    assert (answer.status_code, answer.json()) == (200, {"rotated": 2})
    assert served.registry.in_force.secrets["openai", "b"] == b"2"


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("openai", {}),
        ("openai", {"values": {}}),
        ("openai", {"values": {"k": ""}}),
        ("openai", {"values": {"k": 5}}),
        ("openai", {"values": {f"bad key {MARKER}": "x"}}),
        ("openai", {"values": {"k": MARKER}, "extra": MARKER}),
        ("openai", {"values": [MARKER]}),
        ("openai", {"values": {"k": "\ud800"}}),
        (".hidden", {"values": {"k": MARKER}}),
        ("a%20b", {"values": {"k": MARKER}}),
    ],
)
async def test_wrong_secrets_are_refused_without_quoting(
    visitor: httpx.AsyncClient, name: str, body: object
) -> None:
    """422, and not even what may have been pasted into the wrong place comes back."""
    content, headers = json.dumps(body), {"content-type": "application/json"}
    answer = await visitor.put(f"/api/v1/secrets/{name}", content=content, headers=headers)
    assert answer.status_code == 422, answer.text
    assert MARKER not in answer.text
    assert (await visitor.get("/api/v1/secrets")).json() == {"items": []}
