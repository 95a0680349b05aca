"""The CRDs on a real API server: what it takes, and what it refuses before anything of ours is asked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.kubernetes.cluster import Cluster
from tests.e2e.kubernetes.conftest import CRDS
from tests.e2e.kubernetes.custom_resources import FULL, PLURALS, REFUSED, SMALLEST, path, resource

# As kubectl asks: without it the API server drops unknown fields with a warning.
STRICT = {"dryRun": "All", "fieldValidation": "Strict"}


def test_every_kind_is_established_and_named_as_in_rest(cluster: Cluster) -> None:
    """Each CRD is established, its names accepted, without a complaint about its schema."""
    found = cluster.get("/apis/apiextensions.k8s.io/v1/customresourcedefinitions")["items"]
    ours = {one["spec"]["names"]["kind"]: one for one in found if one["spec"]["group"] == "outrigger.dev"}
    assert {kind: one["spec"]["names"]["plural"] for kind, one in ours.items()} == PLURALS
    for one in ours.values():
        conditions = {entry["type"]: entry["status"] for entry in one["status"]["conditions"]}
        assert conditions["Established"] == conditions["NamesAccepted"] == "True"
        assert "NonStructuralSchema" not in conditions
        assert one["spec"]["scope"] == "Cluster"
        assert "outrigger" in one["spec"]["names"]["categories"]


@pytest.mark.parametrize("kind", sorted(SMALLEST))
def test_the_smallest_of_each_kind_is_taken(cluster: Cluster, kind: str) -> None:
    """The smallest spec of each kind is valid."""
    answer = cluster.http.post(path(kind), params=STRICT, json=resource(kind, "small", SMALLEST[kind]))
    assert answer.status_code == 201, answer.text


def test_a_policys_unset_fields_stay_unset(cluster: Cluster) -> None:
    """The schema sets nothing in a Policy: what it leaves open is another Policy's to say."""
    spec = {"cache": {"semantic": {"enabled": True}}, "target": {"models": ["a"]}, "parameters": {"n": {}}}
    answer = cluster.http.post(path("Policy"), params=STRICT, json=resource("Policy", "open", spec))
    assert answer.status_code == 201, answer.text
    assert answer.json()["spec"] == spec


@pytest.mark.parametrize("case", sorted(FULL))
def test_every_field_is_known(cluster: Cluster, case: str) -> None:
    """A resource that sets every field is taken, and what it says is kept."""
    kind, spec = FULL[case]
    answer = cluster.http.post(path(kind), params=STRICT, json=resource(kind, "full", spec))
    assert answer.status_code == 201, answer.text
    assert _kept(spec, answer.json()["spec"])


@pytest.mark.parametrize("case", sorted(REFUSED))
def test_the_api_server_refuses_what_a_schema_can_know(cluster: Cluster, case: str) -> None:
    """A resource that no control plane would accept is refused by the API server itself."""
    kind, spec = REFUSED[case]
    answer = cluster.http.post(path(kind), params=STRICT, json=resource(kind, "wrong", spec))
    assert answer.status_code in (400, 422), answer.text


@pytest.mark.parametrize("kind", sorted(SMALLEST))
def test_a_resource_without_a_spec_is_refused(cluster: Cluster, kind: str) -> None:
    """Without a spec there is nothing to mirror."""
    document = resource(kind, "wrong", {})
    del document["spec"]
    answer = cluster.http.post(path(kind), params=STRICT, json=document)
    assert answer.status_code == 422, answer.text


def test_status_is_written_apart(cluster: Cluster) -> None:
    """The status subresource takes conditions by type, and a change of the spec leaves them alone."""
    made = cluster.create(path("Pin"), resource("Pin", "with-status", SMALLEST["Pin"]))
    try:
        assert made["metadata"]["generation"] == 1
        condition = _condition("Accepted", "True")
        patched = _patch_status(cluster, "with-status", [condition])
        assert patched["metadata"]["generation"] == 1
        assert patched["status"]["conditions"] == [condition]
        twice = cluster.http.patch(
            f"{path('Pin', 'with-status')}/status",
            headers={"content-type": "application/merge-patch+json"},
            json={"status": {"conditions": [condition, condition]}},
        )
        assert twice.status_code == 422, "conditions are a list-map by type"
    finally:
        cluster.http.delete(path("Pin", "with-status"))


def test_columns_and_short_names_serve_kubectl(cluster: Cluster) -> None:
    """`kubectl get outrigger` lists what there is, with both conditions in columns."""
    cluster.create(path("Backend"), resource("Backend", "seen", SMALLEST["Backend"]))
    try:
        listed = cluster.kubectl("get", "outrigger")
        assert "backend.outrigger.dev/seen" in listed
        for definition in map(_read, sorted(CRDS.glob("*.yaml"))):
            columns = [one["name"] for one in definition["spec"]["versions"][0]["additionalPrinterColumns"]]
            assert {"Accepted", "Programmed"} <= set(columns)
            for short in definition["spec"]["names"]["shortNames"]:
                cluster.kubectl("get", short)
    finally:
        cluster.http.delete(path("Backend", "seen"))


@pytest.mark.parametrize("plural", sorted(PLURALS.values()))
def test_every_field_is_described(cluster: Cluster, plural: str) -> None:
    """`kubectl explain` has a sentence for every field of every kind."""
    found = cluster.get(f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{plural}.outrigger.dev")
    schema = found["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    assert list(_undescribed(schema, plural)) == []


def _kept(written: Any, stored: Any) -> bool:
    """Return whether `stored` says all that was written, perhaps with defaults besides."""
    if isinstance(written, dict):
        return isinstance(stored, dict) and all(
            key in stored and _kept(value, stored[key]) for key, value in written.items()
        )
    if isinstance(written, list):
        return len(written) == len(stored) and all(map(_kept, written, stored))
    return bool(written == stored)


def _read(file: Path) -> dict[str, Any]:
    definition: dict[str, Any] = yaml.safe_load(file.read_text())
    return definition


def _condition(kind: str, status: str) -> dict[str, Any]:
    return {
        "type": kind,
        "status": status,
        "reason": "Accepted",
        "message": "it is",
        "observedGeneration": 1,
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }


def _patch_status(cluster: Cluster, name: str, conditions: list[dict[str, Any]]) -> dict[str, Any]:
    answer = cluster.http.patch(
        f"{path('Pin', name)}/status",
        headers={"content-type": "application/merge-patch+json"},
        json={"status": {"conditions": conditions}},
    )
    assert answer.status_code == 200, answer.text
    patched: dict[str, Any] = answer.json()
    return patched


def _undescribed(schema: dict[str, Any], where: str) -> list[str]:
    """Return the path of each property that says nothing of itself, or keeps unknown fields."""
    found = []
    for name, child in schema.get("properties", {}).items():
        if where.count(".") == 0 and name in ("apiVersion", "kind", "metadata"):
            continue
        if not child.get("description") or child.get("x-kubernetes-preserve-unknown-fields"):
            found.append(f"{where}.{name}")
        found += _undescribed(child, f"{where}.{name}")
    for part in ("items", "additionalProperties"):
        if isinstance(schema.get(part), dict):
            found += _undescribed(schema[part], f"{where}[]")
    return found
