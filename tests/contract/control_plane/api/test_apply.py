"""Many documents at once: all or nothing, in any order, or only what would become of them."""

import json

import httpx
import pytest
import yaml

from control_plane.resources.unbuilt import UNBUILT
from tests.contract.control_plane.api.papers import backend, consumer, model
from tests.contract.control_plane.api.served import Served


async def names(client: httpx.AsyncClient, plural: str) -> list[str]:
    """Return what there is."""
    found = (await client.get(f"/api/v1/{plural}")).json()["items"]
    return [item["metadata"]["name"] for item in found]


async def test_yaml_and_json_in_any_order(admin: httpx.AsyncClient) -> None:
    """A Model before its Backend; the answer names each document and every field that changed."""
    text = yaml.safe_dump_all([model(), backend()])
    answer = await admin.post("/api/v1/apply", content=text, headers={"content-type": "application/yaml"})
    body = answer.json()
    assert (answer.status_code, body["revision"], body["dryRun"], body["warnings"]) == (200, 1, False, [])
    assert {(change["document"], change["action"]) for change in body["changes"]} == {
        ("Model/mini", "create"),
        ("Backend/openai", "create"),
    }
    changed = (await admin.post("/api/v1/apply", json=[backend(default=True), model()])).json()
    assert changed["revision"] == 2
    by_name = {change["document"]: change for change in changed["changes"]}
    assert by_name["Model/mini"] == {"document": "Model/mini", "action": "unchanged", "fields": []}
    assert by_name["Backend/openai"]["fields"] == [{"field": "spec.default", "before": None, "after": True}]


async def test_nothing_changed_is_no_revision(admin: httpx.AsyncClient) -> None:
    """The answer names the revision there is."""
    for _ in range(2):
        assert (await admin.post("/api/v1/apply", json=[backend()])).json()["revision"] == 1


async def test_a_dry_run_changes_nothing(served: Served, admin: httpx.AsyncClient) -> None:
    """It answers what would change, and refuses what would be refused."""
    body = (await admin.post("/api/v1/apply?dryRun=true", json=[backend()])).json()
    assert (body["dryRun"], body["revision"], body["changes"][0]["action"]) == (True, 0, "create")
    assert (await admin.post("/api/v1/apply?dryRun=true", json=[model()])).status_code == 422
    assert served.registry.head.revision == 0


@pytest.mark.parametrize("query", ["dryrun=true", "dryRun=maybe", "dry_run=true"])
async def test_a_misspelled_dry_run_is_no_change(
    lasting: Served, visitor: httpx.AsyncClient, query: str
) -> None:
    """Refused, and the right name is told."""
    answer = await visitor.post(f"/api/v1/apply?{query}", json=[backend()])
    assert (answer.status_code, "dryRun" in answer.text) == (422, True)
    assert lasting.registry.head.revision == 0


async def test_one_wrong_document_keeps_all_out(admin: httpx.AsyncClient) -> None:
    """Every error is told, with document and field."""
    answer = await admin.post(
        "/api/v1/apply", json=[backend(), backend("b", url="ftp://x"), consumer(), {"kind": "Modle"}]
    )
    assert answer.status_code == 422
    errors = answer.json()["errors"]
    assert {(error["document"], error["field"]) for error in errors} >= {("Backend/b", "spec.url")}
    assert any('did you mean "Model"?' in error["message"] for error in errors)
    assert await names(admin, "backends") == []
    assert await names(admin, "consumers") == []


async def test_warnings_name_what_has_no_effect_yet(
    admin: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Accepted, and told."""
    monkeypatch.setitem(UNBUILT, "Backend", frozenset({("warmup",)}))
    body = (await admin.post("/api/v1/apply", json=[backend(warmup={"requests": 1})])).json()
    assert body["warnings"] == [
        {
            "document": "Backend/openai",
            "field": "spec.warmup.requests",
            "message": "is accepted but has no effect yet",
        }
    ]


@pytest.mark.parametrize(
    ("content", "status"),
    [
        ("[]", 400),
        ("", 400),
        ("[", 400),
        ("{}", 422),
        ("[null]", 422),
        ('[{"kind": "Backend"}]', 422),
        (json.dumps([backend(), backend()]), 422),
        ("[" * 100_000, 400),
        ('{"a":' * 100_000, 400),
    ],
)
async def test_odd_bodies(visitor: httpx.AsyncClient, content: str, status: int) -> None:
    """Refused as what they are; nothing breaks."""
    headers = {"content-type": "application/json"}
    answer = await visitor.post("/api/v1/apply", content=content, headers=headers)
    assert answer.status_code == status, answer.text


@pytest.mark.parametrize("kind", [[], {}, ["Backend"], None, 5])
async def test_a_kind_that_is_no_text_is_named(admin: httpx.AsyncClient, kind: object) -> None:
    """The document and the field, and the connection goes on."""
    wrong = {**backend(), "kind": kind}
    answer = await admin.post("/api/v1/apply", json=[backend(), wrong])
    assert answer.status_code == 422, answer.text
    assert [(error["document"], error["field"]) for error in answer.json()["errors"]] == [
        ("document 2", "kind")
    ]
    assert await names(admin, "backends") == []


async def test_very_many_errors_are_told_in_part(admin: httpx.AsyncClient) -> None:
    """An answer is no larger than helps."""
    wrong = [backend(f"b{number}", wrong=True) for number in range(300)]
    answer = await admin.post("/api/v1/apply", json=wrong)
    assert answer.status_code == 422
    assert len(answer.json()["errors"]) == 100
    assert "300" in answer.json()["detail"]
