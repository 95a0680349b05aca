"""What the mesh does with the documents, over real HTTP."""

import httpx
import pytest

from control_plane.push.policy import Policy
from control_plane.push.sidecars import Identity
from control_plane.resources.compile import compile_snapshot
from tests.contract.control_plane.api.papers import backend, consumer, document, model
from tests.contract.control_plane.api.served import Served


def publish(served: Served) -> None:
    """Bring what is in force to the fleet."""
    head = served.registry.in_force
    served.fleet.publish(
        Policy(head.revision, lambda workload: compile_snapshot(head.documents, workload, head.revision))
    )


async def test_sidecars_are_shown_with_what_they_serve(served: Served, admin: httpx.AsyncClient) -> None:
    """Pushed, acknowledged, and why one refused; null while none did."""
    assert (await admin.get("/api/v1/sidecars")).json() == {"items": []}
    await admin.put("/api/v1/backends/openai", json=backend())
    publish(served)
    sidecar = served.fleet.connect(Identity("shop-1", "shop", labels={"zone": "a"}), lambda: None)
    assert served.fleet.next_message(sidecar) is not None
    (shown,) = (await admin.get("/api/v1/sidecars")).json()["items"]
    assert (shown["id"], shown["workload"], shown["labels"]) == ("shop-1", "shop", {"zone": "a"})
    assert (shown["connected"], shown["pushed"], shown["acknowledged"], shown["nack"], shown["inForce"]) == (
        True,
        sidecar.pushed,
        "",
        None,
        False,
    )
    served.fleet.acknowledge(sidecar, sidecar.pushed)
    (shown,) = (await admin.get("/api/v1/sidecars")).json()["items"]
    assert (shown["acknowledged"], shown["inForce"]) == (sidecar.pushed, True)
    assert "versions" not in shown
    (shown,) = (await admin.get("/api/v1/sidecars?statistics=true")).json()["items"]
    assert shown["versions"] == []


async def test_the_snapshot_is_what_a_workload_obeys(served: Served, admin: httpx.AsyncClient) -> None:
    """Only Policies for it; no digest of a key and no salt."""
    policy = document("Policy", "p", target={"workloads": ["shop"]}, cache={"enabled": True})
    await admin.post("/api/v1/apply", json=[backend(), model(), consumer(), policy])
    await admin.post("/api/v1/consumers/team-a/keys")
    answer = await admin.get("/api/v1/snapshot", params={"workload": "shop"})
    body = answer.json()
    assert (body["revision"], body["workload"], body["defaultBackend"]) == (2, "shop", "openai")
    assert body["models"]["mini"]["versions"][0]["upstreamModel"] == "mini"
    assert body["policies"][0]["settings"] == {"cache.enabled": True}
    assert (await admin.get("/api/v1/snapshot")).json()["policies"] == []
    assert "consumerKeys" not in body
    head = served.registry.in_force
    for secret in (head.key_salt, *head.consumer_keys):
        assert secret not in answer.text


async def test_explain_says_which_policy_set_what(admin: httpx.AsyncClient) -> None:
    """Field by field, the more specific wins; null is the default. Values are as they are written."""
    wide = document("Policy", "wide", cache={"enabled": True, "ttl": "90s"})
    narrow = document("Policy", "narrow", target={"models": ["mini"]}, cache={"ttl": "24h"})
    await admin.post("/api/v1/apply", json=[backend(), model(), wide, narrow])
    body = (await admin.get("/api/v1/explain?model=mini&tier=gold&workload=shop")).json()
    assert (body["model"], body["tier"], body["workload"]) == ("mini", "gold", "shop")
    fields = {item["field"]: (item["value"], item["policy"]) for item in body["fields"]}
    assert fields["cache.enabled"] == (True, "wide")
    assert fields["cache.ttl"] == ("24h", "narrow")
    assert fields["retry.attempts"] == (3, None)
    other = (await admin.get("/api/v1/explain")).json()
    assert {item["field"]: item["value"] for item in other["fields"]}["cache.ttl"] == "90s"


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("model=mini&version=stabel", 'did you mean \\"stable\\"?'),
        ("model=nobody&version=v", "it has none"),
        ("version=v", "it has none"),
    ],
)
async def test_a_version_that_the_model_does_not_have_is_refused(
    admin: httpx.AsyncClient, query: str, text: str
) -> None:
    """With the nearest one it has: its settings would be those of no version."""
    await admin.post("/api/v1/apply", json=[backend(), model()])
    assert (await admin.get("/api/v1/explain?model=mini&version=stable")).status_code == 200
    answer = await admin.get(f"/api/v1/explain?{query}")
    assert (answer.status_code, text in answer.text) == (422, True), answer.text


async def test_a_halted_revision_is_shown_and_not_in_force(served: Served, admin: httpx.AsyncClient) -> None:
    """Documents show the newest, the snapshot what was before."""
    await admin.put("/api/v1/backends/openai", json=backend())
    await admin.put("/api/v1/backends/openai", json=backend(url="https://other.example/v1"))
    await served.registry.halt(2, "cluster refused")
    assert (await admin.get("/api/v1/snapshot")).json()["revision"] == 1
    assert (await admin.get("/api/v1/backends/openai")).json()["spec"]["url"] == "https://other.example/v1"
    shown = (await admin.get("/api/v1/revisions/2")).json()
    assert (shown["state"], shown["reason"]) == ("halted", "cluster refused")
