"""API tokens over real HTTP."""

import httpx
import pytest

from control_plane.auth.roles import Role
from tests.contract.control_plane.api.papers import backend
from tests.contract.control_plane.api.served import Served

TOKENS = "/api/v1/tokens"


async def test_a_token_is_shown_once_and_works(served: Served, admin: httpx.AsyncClient) -> None:
    """With its role and scopes; the list does not hold it."""
    order = {
        "name": "ci",
        "role": "editor",
        "scopes": ["backends:write"],
        "expiresAt": "2099-01-31T08:00:00+08:00",
    }
    made = await admin.post(TOKENS, json=order)
    assert made.status_code == 201
    body = made.json()
    assert body["token"].startswith(f"ort_{body['id']}_")
    assert (body["name"], body["role"], body["scopes"]) == ("ci", "editor", ["backends:write"])
    assert body["expiresAt"] == "2099-01-31T00:00:00Z"
    async with served.client(body["token"]) as client:
        assert (await client.put("/api/v1/backends/openai", json=backend())).status_code == 201
        assert (await client.get("/api/v1/models")).status_code == 403
    listed = await admin.get(TOKENS)
    assert [item["id"] for item in listed.json()["items"]] == [body["id"]]
    assert body["token"].rpartition("_")[2] not in listed.text
    files = [file for file in served.data_dir.rglob("*") if file.is_file()]
    assert not any(body["token"][-20:].encode() in file.read_bytes() for file in files)
    revision = (await admin.get("/api/v1/revisions/1")).json()
    assert revision["actor"] == "ci"


async def test_a_token_without_a_name_has_one(admin: httpx.AsyncClient) -> None:
    """The role with its id, so that the audit tells tokens apart."""
    body = (await admin.post(TOKENS, json={"role": "viewer"})).json()
    assert body["name"] == f"viewer-{body['id']}"


@pytest.mark.parametrize(
    ("order", "field"),
    [
        ({}, "role"),
        ({"role": "root"}, "role"),
        ({"role": "viewer", "scopes": ["model:read"]}, "scopes"),
        ({"role": "viewer", "scopes": "models:read"}, "scopes"),
        ({"role": "viewer", "name": "files"}, "name"),
        ({"role": "viewer", "name": "a\nb"}, "name"),
        ({"role": "viewer", "name": ""}, "name"),
        ({"role": "viewer", "expiresAt": "2001-01-31T08:00:00Z"}, "expiresAt"),
        ({"role": "viewer", "secret-ort_pasted": "x"}, "?"),
    ],
)
async def test_wrong_orders_name_the_field(
    visitor: httpx.AsyncClient, order: dict[str, object], field: str
) -> None:
    """422, and nothing is quoted that may be a secret."""
    answer = await visitor.post(TOKENS, json=order)
    assert answer.status_code == 422
    assert field in {error["field"] for error in answer.json()["errors"]}
    assert "ort_pasted" not in answer.text


async def test_a_scoped_admin_makes_nothing_wider(served: Served) -> None:
    """Only tokens with some of its own scopes."""
    async with served.client(await served.token(Role.ADMIN, "tokens:write", "models:read")) as scoped:
        assert (await scoped.post(TOKENS, json={"role": "admin"})).status_code == 403
        wider = {"role": "viewer", "scopes": ["policies:read"]}
        assert (await scoped.post(TOKENS, json=wider)).status_code == 403
        same = {"role": "viewer", "scopes": ["models:read"]}
        assert (await scoped.post(TOKENS, json=same)).status_code == 201
