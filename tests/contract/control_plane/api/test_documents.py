"""Documents over real HTTP: what is put is answered, and writers do not overwrite each other unseen."""

import asyncio
import json
from urllib.parse import quote

import httpx
import pytest

from control_plane.api.examples import EXAMPLES
from control_plane.resources.plurals import KIND_OF
from control_plane.resources.unbuilt import UNBUILT
from tests.contract.control_plane.api.papers import backend, document, model
from tests.contract.control_plane.api.served import Served


async def put(client: httpx.AsyncClient, paper: dict[str, object], **headers: str) -> httpx.Response:
    """Put a document at its own path."""
    plural = next(plural for plural, kind in KIND_OF.items() if kind == paper["kind"])
    name = paper["metadata"]["name"]  # type: ignore[index]
    return await client.put(f"/api/v1/{plural}/{quote(name, safe='')}", json=paper, headers=headers)


async def test_a_document_lives(admin: httpx.AsyncClient) -> None:
    """New, read, replaced, deleted, gone; each answer with its status and tag."""
    new = await put(admin, backend())
    assert (new.status_code, new.headers["location"]) == (201, "/api/v1/backends/openai")
    read = await admin.get("/api/v1/backends/openai")
    assert (read.status_code, read.json()) == (200, backend())
    assert read.headers["etag"] == new.headers["etag"]
    replaced = await put(admin, backend(default=True))
    assert replaced.status_code == 200
    assert replaced.json()["spec"]["default"] is True
    assert replaced.headers["etag"] != new.headers["etag"]
    assert (await admin.delete("/api/v1/backends/openai")).status_code == 204
    for again in (await admin.delete("/api/v1/backends/openai"), await admin.get("/api/v1/backends/openai")):
        assert again.status_code == 404
        assert again.json()["detail"] == "Backend/openai does not exist"


@pytest.mark.parametrize("kind", KIND_OF.values())
async def test_every_kind_is_served(admin: httpx.AsyncClient, kind: str) -> None:
    """The examples of the API's own description can be put, in order."""
    for name, example in EXAMPLES.items():
        assert (await put(admin, example)).status_code == 201, name
        if name == kind:
            break
    plural = next(plural for plural, found in KIND_OF.items() if found == kind)
    assert (await admin.get(f"/api/v1/{plural}")).json() == {"items": [EXAMPLES[kind]]}


@pytest.mark.parametrize(
    ("content", "media_type"),
    [
        (json.dumps(backend()), "application/json"),
        (json.dumps(backend()), "application/json; charset=utf-8"),
        (
            "kind: Backend\nmetadata: {name: openai}\nspec: {url: 'https://x.example/v1'}",
            "application/yaml",
        ),
        ("kind: Backend\nmetadata: {name: openai}\nspec: {url: 'https://x.example/v1'}", "text/yaml"),
        (json.dumps(backend()), None),
        (json.dumps({**backend(), "status": {"conditions": []}}), "application/json"),
    ],
)
async def test_bodies(admin: httpx.AsyncClient, content: str, media_type: str | None) -> None:
    """JSON or YAML."""
    headers = {"content-type": media_type} if media_type else {}
    answer = await admin.put("/api/v1/backends/openai", content=content, headers=headers)
    assert answer.status_code == 201, answer.text


@pytest.mark.parametrize(
    ("content", "media_type", "status"),
    [
        (json.dumps(backend()), "text/plain", 415),
        (json.dumps(backend()), "application/x-www-form-urlencoded", 415),
        (json.dumps(backend()), "application/json; charset=utf-16", 415),
        ("{", "application/json", 400),
        ("", "application/json", 400),
        ("---\n---\n", "application/yaml", 400),
        ("{", "application/yaml", 400),
        (json.dumps([backend(), backend("b")]), "application/json", 400),
        ('{"kind": "Backend", "kind": "Backend"}', "application/json", 400),
        (json.dumps(backend()).encode("utf-16"), "application/json", 400),
        ("null", "application/json", 400),
        ("5", "application/json", 422),
        ('""', "application/json", 422),
        (json.dumps(backend("other")), "application/json", 422),
        (json.dumps(model("openai")), "application/json", 422),
        (json.dumps(backend(ulr="x")), "application/json", 422),
        (json.dumps(backend()).replace("}}", ', "quota": {"concurrency": NaN}}}'), "application/json", 422),
    ],
)
async def test_wrong_bodies(
    visitor: httpx.AsyncClient, content: str | bytes, media_type: str, status: int
) -> None:
    """Unparsable is 400, another type 415, wrong 422; nothing is kept of what is refused."""
    headers = {"content-type": media_type}
    answer = await visitor.put("/api/v1/backends/openai", content=content, headers=headers)
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["status"] == status
    assert (await visitor.get("/api/v1/backends")).json() == {"items": []}


async def test_a_refusal_names_document_field_and_the_nearest(admin: httpx.AsyncClient) -> None:
    """What to do stands in the message."""
    answer = await put(admin, backend(timeout={}))
    assert answer.json()["errors"] == [
        {
            "document": "Backend/openai",
            "field": "spec.timeout",
            "message": 'is no field of Backend; did you mean "timeouts"?',
        }
    ]


async def test_references_are_kept_whole(admin: httpx.AsyncClient) -> None:
    """A Model needs its Backend; a Backend in use is not deleted, and the answer says by whom it is used."""
    broken = await put(admin, model())
    assert broken.status_code == 422
    assert broken.json()["errors"][0]["field"] == "spec.versions[0].backend"
    assert "openai" in broken.json()["errors"][0]["message"]
    await put(admin, backend())
    await put(admin, model())
    used = await admin.delete("/api/v1/backends/openai")
    assert used.status_code == 409
    assert used.json()["errors"][0]["document"] == "Model/mini"
    assert used.json()["errors"][0]["field"] == "spec.versions[0].backend"
    assert (await admin.get("/api/v1/backends/openai")).status_code == 200


async def test_a_stale_writer_is_told(admin: httpx.AsyncClient) -> None:
    """412 with the current tag, on PUT and DELETE; the right tag and `*` pass."""
    old = (await put(admin, backend())).headers["etag"]
    new = (await put(admin, backend(default=True), **{"if-match": old})).headers["etag"]
    for stale in (old, '"x"', f"W/{new}"):
        answer = await put(admin, backend(), **{"if-match": stale})
        assert (answer.status_code, answer.headers["etag"]) == (412, new)
        assert (await admin.delete("/api/v1/backends/openai", headers={"if-match": stale})).status_code == 412
    assert (await put(admin, backend(), **{"if-none-match": "*"})).status_code == 412
    assert (await put(admin, backend("b"), **{"if-match": "*"})).status_code == 412
    assert (await put(admin, backend("b"), **{"if-none-match": "*"})).status_code == 201
    assert (await put(admin, backend(http="2"), **{"if-match": f"{old}, {new}"})).status_code == 200
    assert (await admin.delete("/api/v1/backends/openai", headers={"if-match": "*"})).status_code == 204


@pytest.mark.parametrize(
    ("method", "headers"),
    [
        ("PUT", {"if-match": "r12"}),
        ("PUT", {"if-match": ""}),
        ("PUT", {"if-none-match": '"r12"'}),
        ("DELETE", {"if-match": '"r1" "r2"'}),
        ("DELETE", {"if-none-match": "*"}),
    ],
)
async def test_a_condition_that_cannot_be_read_is_no_condition_met(
    admin: httpx.AsyncClient, method: str, headers: dict[str, str]
) -> None:
    """400: what was meant is unknown, so nothing is changed."""
    await put(admin, backend())
    answer = await admin.request(method, "/api/v1/backends/openai", json=backend(), headers=headers)
    assert answer.status_code == 400


async def test_of_racing_writers_one_wins(admin: httpx.AsyncClient) -> None:
    """Twenty with one tag: one 200, the others 412."""
    tag = (await put(admin, backend())).headers["etag"]
    answers = await asyncio.gather(
        *(put(admin, backend(quota={"concurrency": n}), **{"if-match": tag}) for n in range(1, 21))
    )
    assert sorted(answer.status_code for answer in answers) == [200] + [412] * 19
    winner = next(answer for answer in answers if answer.status_code == 200)
    assert (await admin.get("/api/v1/backends/openai")).json() == winner.json()


async def test_what_a_reader_has_is_not_sent_again(admin: httpx.AsyncClient) -> None:
    """304 for one and for the list; HEAD has the headers only."""
    tag = (await put(admin, backend())).headers["etag"]
    for path in ("/api/v1/backends", "/api/v1/backends/openai"):
        head = await admin.head(path)
        assert (head.status_code, head.headers["etag"], head.content) == (200, tag, b"")
        assert int(head.headers["content-length"]) > 0
        same = await admin.get(path, headers={"if-none-match": f'"x", {tag}'})
        assert (same.status_code, same.headers["etag"], same.content) == (304, tag, b"")
        assert (await admin.get(path, headers={"if-none-match": '"x"'})).status_code == 200


async def test_lists_have_pages(admin: httpx.AsyncClient) -> None:
    """`next` leads to the next; a wrong or unknown parameter is refused by name."""
    names = [f"b{number}" for number in range(5)]
    await admin.post("/api/v1/apply", json=[backend(name) for name in reversed(names)])
    found, after = [], None
    while True:
        page = (
            await admin.get("/api/v1/backends", params={"limit": 2, **({"after": after} if after else {})})
        ).json()
        found += [item["metadata"]["name"] for item in page["items"]]
        after = page.get("next")
        if after is None:
            break
    assert found == names
    assert "next" not in (await admin.get("/api/v1/backends")).json()
    for query in ("limit=0", "limit=x", "limit=99999999999999999999", "limits=2"):
        answer = await admin.get(f"/api/v1/backends?{query}")
        assert answer.status_code == 422, query
        assert "limit" in answer.text


@pytest.mark.parametrize("name", ["meta-llama/Llama-3.1-8B", "ft:gpt-4o:org::id", "a+b@c", "..%2e"])
async def test_models_may_be_named_like_the_providers(admin: httpx.AsyncClient, name: str) -> None:
    """Slashes and colons, coded or not; what is no name is refused."""
    await put(admin, backend())
    answer = await put(admin, model(name))
    if "%" in name:
        assert answer.status_code == 422
        return
    assert answer.status_code == 201
    for path in (quote(name, safe=""), quote(name, safe="/:@+")):
        assert (await admin.get(f"/api/v1/models/{path}")).json() == model(name)
    assert (await admin.get(answer.headers["location"])).status_code == 200
    assert (await admin.delete(f"/api/v1/models/{quote(name, safe='')}")).status_code == 204


@pytest.mark.parametrize(
    "path",
    [
        "..%2f..%2fetc%2fpasswd",
        "%00",
        "a%0d%0ab",
        "%2e%2e",
        "%C3%A9",
        "%E5%90%8D",
        "x" * 5_000,
        "%ff",
        "a%20b",
        "%",
        "%2f",
    ],
)
async def test_tricks_in_paths_find_nothing(lasting: Served, visitor: httpx.AsyncClient, path: str) -> None:
    """4xx in one shape for reading, putting and deleting, and nothing is made."""
    for plural in ("backends", "models", "consumers"):
        for method in ("GET", "PUT", "DELETE"):
            url = httpx.URL(lasting.url).copy_with(raw_path=f"/api/v1/{plural}/{path}".encode())
            answer = await visitor.request(method, url, json=document(KIND_OF[plural], "x"))
            assert answer.status_code in (404, 422), (method, plural, answer.text)
            assert answer.headers["content-type"] == "application/problem+json"
            assert len(answer.content) < 3_000
    assert lasting.registry.head.revision == 0


async def test_what_has_no_effect_yet_is_named(
    admin: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PUT answers the document as written, so the warning stands in a header."""
    monkeypatch.setitem(UNBUILT, "Backend", frozenset({("warmup",)}))
    answer = await put(admin, backend(warmup={"requests": 1}))
    assert "spec.warmup" in answer.headers["x-outrigger-warnings"]
    assert answer.json() == backend(warmup={"requests": 1})
