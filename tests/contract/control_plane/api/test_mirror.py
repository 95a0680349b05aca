"""The mirror of Kubernetes over HTTP."""

from __future__ import annotations

import base64
import json
from typing import Any

import httpx

from control_plane.auth.roles import Role
from tests.contract.control_plane.api.papers import backend, consumer, document, model
from tests.contract.control_plane.api.served import Served

PATH = "/api/v1/mirrors/kubernetes"
LONG = "x" * (1 << 20)


def coded(text: str) -> str:
    """Return a value as Kubernetes writes it."""
    return base64.b64encode(text.encode()).decode()


async def mirror(
    client: httpx.AsyncClient, *documents: dict[str, Any], secrets: dict[str, dict[str, str]] | None = None
) -> dict[str, Any]:
    """Put a wish and return what came of it."""
    body: dict[str, Any] = {"documents": documents}
    if secrets is not None:
        body["secrets"] = secrets
    content = json.dumps(body)  # in ASCII: httpx takes no lone surrogates
    answer = await client.put(PATH, content=content, headers={"content-type": "application/json"})
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def test_each_document_gets_a_verdict_and_what_is_right_is_one_revision(
    admin: httpx.AsyncClient,
) -> None:
    """The same wish again is no revision, in whatever order."""
    await admin.put("/api/v1/consumers/team-a", json=consumer())
    wish = [backend(), model(), model("lost", on="nowhere"), consumer(), document("Tier", "t", priority="x")]
    found = await mirror(admin, *wish)
    assert {f"{item['kind']}/{item['name']}": item["reason"] for item in found["items"]} == {
        "Backend/openai": "Accepted",
        "Consumer/team-a": "Conflict",
        "Model/lost": "UnknownReference",
        "Model/mini": "Accepted",
        "Tier/t": "Invalid",
    }
    assert (found["revision"], found["kept"]) == (2, [])
    accepted = [(item["inForce"], item["revision"]) for item in found["items"] if item["accepted"]]
    assert accepted == [(True, 2), (True, 2)]
    (lost,) = [item for item in found["items"] if item["name"] == "lost"]
    assert lost["message"] == 'spec.versions[0].backend names the Backend "nowhere", which does not exist'
    assert await mirror(admin, *reversed(wish)) == found
    rows = (await admin.get("/api/v1/audit")).json()["items"]
    assert [row["target"] for row in rows if row["action"] == "mirror"] == ["Backend/openai, Model/mini"]


async def test_a_wish_of_many_large_documents_is_no_hindrance(admin: httpx.AsyncClient) -> None:
    """Beyond what one file may hold, small documents get their verdict beside large ones."""
    pins = [
        document("Pin", f"long-{number}", model="mini", match={"lastUserMessage": str(number)}, answer=LONG)
        for number in range(17)
    ]
    found = await mirror(admin, backend(), model(), *pins)
    assert all(item["accepted"] for item in found["items"])


async def test_what_is_mirrored_is_changed_by_its_owner_alone(admin: httpx.AsyncClient) -> None:
    """By nobody else's PUT, DELETE or apply; a rollback leaves it; who reads it is told the owner."""
    await admin.put("/api/v1/consumers/team-a", json=consumer())
    await mirror(admin, backend(), model())
    path = "/api/v1/backends/openai"
    refused = [
        await admin.put(path, json=backend(default=True)),
        await admin.delete("/api/v1/models/mini"),
        await admin.post("/api/v1/apply", json=[consumer("team-b"), backend(default=True)]),
        await admin.post("/api/v1/apply?dryRun=true", json=[backend(default=True)]),
    ]
    assert [answer.status_code for answer in refused] == [409] * 4
    assert "mirrored from kubernetes" in refused[0].json()["detail"]
    assert refused[0].json()["errors"][0]["document"] == "Backend/openai"
    assert (await admin.get(path)).headers["x-outrigger-owner"] == "kubernetes"
    assert "x-outrigger-owner" not in (await admin.get("/api/v1/consumers/team-a")).headers
    assert (await admin.put(path, json=backend())).status_code == 200  # as it is
    await admin.delete("/api/v1/consumers/team-a")
    assert (await admin.post("/api/v1/revisions/1/rollback")).status_code == 200
    assert (await admin.get(path)).status_code == (await admin.get("/api/v1/consumers/team-a")).status_code
    await mirror(admin)
    assert (await admin.get(path)).status_code == 404
    await admin.post("/api/v1/revisions/2/rollback")
    assert (await admin.get(path)).status_code == 404


async def test_secrets_are_followed_and_written_only_when_they_differ(
    served: Served, admin: httpx.AsyncClient
) -> None:
    """In the one revision of the wish; those that the API stored are nobody else's."""
    await admin.put("/api/v1/secrets/mine", json={"values": {"k": "v"}})
    named = backend(credentials={"secretRef": {"name": "openai", "key": "k"}})
    secrets = {"openai": {"k": coded("sk-1\n")}, "mine": {"k": coded("x")}, "bad": {"k": "?"}}
    found = await mirror(admin, named, secrets=secrets)
    refused = {item["name"]: item["reason"] for item in found["items"] if item["kind"] == "Secret"}
    assert refused == {"mine": "Conflict", "bad": "Invalid"}
    assert found["revision"] == 2
    held = served.registry.in_force.secrets
    assert held == {("openai", "k"): b"sk-1", ("mine", "k"): b"v"}
    assert (await mirror(admin, named, secrets=secrets))["revision"] == 2
    secrets["openai"]["k"] = coded("sk-2")
    assert (await mirror(admin, named, secrets=secrets))["revision"] == 3
    assert served.registry.in_force.secrets["openai", "k"] == b"sk-2"
    for refusal in (
        await admin.put("/api/v1/secrets/openai", json={"values": {"k": "v"}}),
        await admin.delete("/api/v1/secrets/openai"),
    ):
        assert refusal.status_code == 409
    assert (await mirror(admin, named))["revision"] == 3
    kept = (await mirror(admin, named, secrets={}))["kept"]
    assert kept == [{"kind": "Secret", "name": "openai", "message": "Backend/openai still names it"}]
    assert (await mirror(admin, backend(), secrets={}))["revision"] == 4
    assert served.registry.in_force.secrets == {("mine", "k"): b"v"}


async def test_an_editor_mirrors_documents_and_leaves_secrets_alone(
    served: Served, admin: httpx.AsyncClient
) -> None:
    """A viewer reads."""
    await mirror(admin, secrets={"openai": {"k": coded("sk-1")}})
    async with served.client(await served.token(Role.EDITOR)) as editor:
        secrets = {"openai": {"k": coded("sk-2")}}
        assert (await editor.put(PATH, json={"documents": [], "secrets": secrets})).status_code == 403
        await mirror(editor, backend(), secrets={})
    assert served.registry.in_force.secrets == {("openai", "k"): b"sk-1"}
    async with served.client(await served.token(Role.VIEWER)) as viewer:
        assert (await viewer.put(PATH, json={"documents": []})).status_code == 403
        assert (await viewer.get(PATH)).json()["items"][0]["name"] == "openai"


async def test_how_far_it_has_come_is_read_cheaply(served: Served, admin: httpx.AsyncClient) -> None:
    """What nothing has happened to is 304; what the data plane refused is not programmed."""
    await admin.put("/api/v1/consumers/team-a", json=consumer())
    versions = [{"name": "a", "backend": "openai"}, {"name": "b", "backend": "openai"}]
    release = document("Release", "r", **{"model": "m", "from": "a", "to": "b", "steps": [5]})
    await mirror(admin, backend(), document("Model", "m", versions=versions), release)
    answer = await admin.get(PATH)
    found = answer.json()
    assert (found["revision"], found["sidecars"]) == (2, {"connected": 0})
    assert found["items"][0] == {
        "kind": "Backend",
        "name": "openai",
        "revision": 2,
        "programmed": True,
        "sidecars": {"current": 0, "total": 0},
    }
    assert {**found["releases"]["r"], "since": "", "decisions": []} == {
        "phase": "pending",
        "step": 1,
        "share": 5,
        "reason": "applied",
        "since": "",
        "decisions": [],
    }
    tag = {"if-none-match": answer.headers["etag"]}
    assert (await admin.get(PATH, headers=tag)).status_code == 304
    await served.registry.halt(2, "no")
    assert [item["programmed"] for item in (await admin.get(PATH, headers=tag)).json()["items"]] == [
        False
    ] * 3


async def test_a_body_of_another_form_changes_nothing(admin: httpx.AsyncClient) -> None:
    """Documents that cannot be read are told as such, one by one."""
    await mirror(admin, backend())
    bodies: tuple[object, ...] = (
        [],
        {},
        {"documents": 1},
        {"documents": [], "more": 1},
        {"documents": [], "secrets": {"a": 1}},
    )
    for body in bodies:
        assert (await admin.put(PATH, json=body)).status_code == 422
    found = await mirror(admin, backend(), *([1], {"kind": "\ud800"}, {"kind": "Tier"}))  # type: ignore[arg-type]
    assert [item["reason"] for item in found["items"]] == ["Invalid", "Accepted", "Invalid", "Invalid"]
