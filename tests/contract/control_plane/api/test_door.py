"""Nobody passes without a token: every operation that the API describes, and what it does not describe."""

import asyncio
import time
from typing import Any

import httpx
import pytest

from control_plane.api.door import NO_TOKEN, OPEN_PATHS
from control_plane.api.guard import NEED_KEY
from control_plane.auth.roles import Role
from tests.contract.control_plane.api.papers import backend, consumer
from tests.contract.control_plane.api.served import ADMIN, Served, read, serve

HIDDEN = [
    ("GET", path) for path in ("/", "/docs", "/docs/start.js", "/openapi.json", "/nowhere", "/api/v1/x")
]
HIDDEN += [("POST", "/logout"), ("OPTIONS", "/api/v1/models"), ("TRACE", "/"), ("GET", "/healthz/")]


async def operations(admin: httpx.AsyncClient) -> list[tuple[str, str, dict[str, Any]]]:
    """Return method, path and need of every operation."""
    described = (await admin.get("/openapi.json")).json()
    return [
        (
            method.upper(),
            path.format(name="x", number=1, key_id="x", token_id="x", key="0" * 64),
            operation.get(NEED_KEY, {}),
        )
        for path, methods in described["paths"].items()
        for method, operation in methods.items()
    ]


async def test_every_operation_needs_a_token(served: Served, admin: httpx.AsyncClient) -> None:
    """401 in one form, whether there is such an operation or not; health is open."""
    described = [(method, path) for method, path, _ in await operations(admin)]
    assert len(described) > 40
    async with served.client(None) as stranger:
        for method, path in [*described, *HIDDEN]:
            answer = await stranger.request(method, path)
            if path in OPEN_PATHS:
                assert answer.status_code == 200, path
                continue
            assert (answer.status_code, answer.json()["detail"]) == (401, NO_TOKEN), (method, path)
            assert answer.headers["www-authenticate"] == "Bearer"
            assert answer.headers["content-type"] == "application/problem+json"


async def test_every_operation_needs_its_role(served: Served, admin: httpx.AsyncClient) -> None:
    """The role below is 403 and changes nothing; each refused change is in the audit."""
    below = {"viewer": Role.SIDECAR, "editor": Role.VIEWER, "admin": Role.EDITOR}
    tokens = {needed: await served.token(role) for needed, role in below.items()}
    refused = 0
    for method, path, need in await operations(admin):
        if path in OPEN_PATHS:
            continue
        async with served.client(tokens[need["role"]]) as client:
            answer = await client.request(method, path)
        assert answer.status_code == 403, (method, path)
        assert f"needs the role {need['role']}" in answer.json()["detail"]
        refused += method != "GET"
    assert served.registry.head.revision == 0
    rows = (await admin.get("/api/v1/audit", params={"limit": 500})).json()["items"]
    assert sum(row["outcome"] == "forbidden" for row in rows) == refused > 10


async def test_every_operation_needs_its_scope(served: Served, admin: httpx.AsyncClient) -> None:
    """A token with another scope is 403 and is told which it lacks; with the right one it gets further."""
    tokens: dict[tuple[Role, str], str] = {}

    async def call(method: str, path: str, role: Role, scope: str) -> tuple[int, str]:
        if (role, scope) not in tokens:
            tokens[role, scope] = await served.token(role, scope)
        headers = {"authorization": f"Bearer {tokens[role, scope]}"}
        return await read(admin, method, path, headers=headers)

    for method, path, need in await operations(admin):
        if "scope" not in need:
            continue
        role = Role(need["role"])
        other = "tokens:read" if need["scope"] != "tokens:read" else "audit:read"
        status, text = await call(method, path, role, other)
        assert (status, need["scope"] in text) == (403, True), (method, path)
        status, _ = await call(method, path, role, need["scope"])
        assert status not in (401, 403), (method, path)


async def test_apply_needs_the_scope_of_every_kind_in_it(served: Served) -> None:
    """Else a scope could be got around."""
    async with served.client(await served.token(Role.EDITOR, "backends:write")) as client:
        assert (await client.post("/api/v1/apply", json=[backend()])).status_code == 200
        answer = await client.post("/api/v1/apply", json=[backend("b"), consumer()])
        assert (answer.status_code, "consumers:write" in answer.text) == (403, True)
    assert [name for _, name in served.registry.head.stored] == ["openai"]


async def test_wrong_tokens_get_one_same_answer(served: Served, admin: httpx.AsyncClient) -> None:
    """None, random, changed, shorter, longer, very long, a Consumer's key: no difference, no piece of it."""
    right = await served.token(Role.ADMIN)
    await admin.put("/api/v1/consumers/team-a", json=consumer())
    key = (await admin.post("/api/v1/consumers/team-a/keys")).json()["key"]
    changed = right[:-1] + ("A" if right[-1] != "A" else "B")
    wrong = ["random", changed, right[:-1], right + "x", "z" * 6_000, key, ADMIN + "x", "\xe9\xff"]
    headers = [f"Bearer {token}" for token in wrong]
    headers += ["Bearer", "Basic YTpi", right, f"Token {right}"]
    answers = set()
    for header in headers:
        async with served.client(None) as client:
            raw = [("authorization", header.encode("latin-1"))]
            answer = await client.get("/api/v1/models", headers=raw)  # type: ignore[arg-type]
        shown = {name: value for name, value in answer.headers.items() if name != "date"}
        answers.add((answer.status_code, answer.content, tuple(sorted(shown.items()))))
    assert len(answers) == 1
    assert answers.pop()[0] == 401


async def test_two_tokens_at_once_are_none(served: Served) -> None:
    """Which of them is meant is not for us to say."""
    async with served.client(None) as client:
        twice = [("authorization", f"Bearer {ADMIN}"), ("authorization", f"Bearer {ADMIN}")]
        assert (await client.get("/api/v1/models", headers=twice)).status_code == 401


async def test_a_revoked_token_ends_at_once(served: Served, admin: httpx.AsyncClient) -> None:
    """Also one that was just used; revoking it again finds none."""
    made = (await admin.post("/api/v1/tokens", json={"role": "viewer"})).json()
    async with served.client(made["token"]) as client:
        assert (await client.get("/api/v1/models")).status_code == 200
        assert (await admin.delete(f"/api/v1/tokens/{made['id']}")).status_code == 204
        assert (await client.get("/api/v1/models")).status_code == 401
    assert (await admin.delete(f"/api/v1/tokens/{made['id']}")).status_code == 404


async def test_another_replica_sees_a_revocation_within_a_second(
    served: Served, admin: httpx.AsyncClient
) -> None:
    """Two control planes on one database."""
    async with serve(served.data_dir) as other:
        made = (await admin.post("/api/v1/tokens", json={"role": "viewer"})).json()
        async with other.client(made["token"]) as client:
            async with asyncio.timeout(20):
                while (await client.get("/api/v1/models")).status_code != 200:  # noqa: ASYNC110 - over HTTP there is no event
                    await asyncio.sleep(0.05)
            began = time.monotonic()
            await admin.delete(f"/api/v1/tokens/{made['id']}")
            while (await client.get("/api/v1/models")).status_code != 401:  # noqa: ASYNC110 - over HTTP there is no event
                await asyncio.sleep(0.02)
            # A busy machine takes a while for the calls themselves.
            assert time.monotonic() - began < 2


async def test_guessing_is_slowed_down(tmp_path: Any) -> None:
    """429 with retry-after for unknown tokens; known ones and those without any are answered as ever."""
    async with serve(tmp_path, burst=30) as served:
        right = await served.token(Role.VIEWER)
        async with served.client(right) as known, served.client(None) as stranger:
            assert (await known.get("/api/v1/models")).status_code == 200
            statuses = []
            for number in range(35):
                headers = {"authorization": f"Bearer guess-{number}"}
                statuses.append(await stranger.get("/api/v1/models", headers=headers))
            assert {answer.status_code for answer in statuses[:30]} == {401}
            assert statuses[-1].status_code == 429
            assert int(statuses[-1].headers["retry-after"]) >= 1
            assert (await known.get("/api/v1/models")).status_code == 200
            assert (await stranger.get("/api/v1/models")).status_code == 401
            assert (await stranger.get("/healthz")).status_code == 200


async def test_a_websocket_is_refused(served: Served) -> None:
    """There is none here."""
    upgrade = {
        "connection": "upgrade",
        "upgrade": "websocket",
        "sec-websocket-version": "13",
        "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==",
    }
    async with served.client(None) as client:
        assert (await client.get("/", headers=upgrade)).status_code in (400, 401, 403)


@pytest.mark.parametrize("method", ["PATCH", "POST", "FOO"])
async def test_a_wrong_method_names_the_right_ones(admin: httpx.AsyncClient, method: str) -> None:
    """RFC 9110 asks for Allow on a 405."""
    answer = await admin.request(method, "/api/v1/models/x")
    assert (answer.status_code, answer.headers["allow"]) == (405, "DELETE, GET, HEAD, PUT")
    assert answer.headers["content-type"] == "application/problem+json"
