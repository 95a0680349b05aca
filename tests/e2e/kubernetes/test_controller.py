"""The controller between a real API server and a real control plane, while nothing dies."""

from __future__ import annotations

import base64
import signal
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.kubernetes.cluster import Cluster
from tests.e2e.kubernetes.custom_resources import PLURALS, path, resource
from tests.e2e.kubernetes.programs import LEASE_NAMESPACE, ControlPlane, Program, controller
from tests.harness.processes import until

SECONDS = 5.0
URL = "https://api.example.com/v1"


class Resources:
    """Custom resources of one module; what is left goes at its end."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def put(self, kind: str, name: str, **spec: Any) -> dict[str, Any]:
        """Apply a custom resource and return it as stored."""
        return self._cluster.apply(path(kind, name), resource(kind, name, spec))

    def delete(self, kind: str, name: str) -> None:
        """Delete a custom resource."""
        self._cluster.http.delete(path(kind, name)).raise_for_status()

    def condition(self, kind: str, name: str, which: str) -> dict[str, Any] | None:
        """Return a condition of the resource's present generation; None as long as there is none."""
        found = self._cluster.get(path(kind, name))
        for one in found.get("status", {}).get("conditions", []):
            if one["type"] == which and one["observedGeneration"] == found["metadata"]["generation"]:
                condition: dict[str, Any] = one
                return condition
        return None

    def judged(self, kind: str, name: str, status: str, seconds: float = SECONDS) -> dict[str, Any]:
        """Wait for `Accepted` to be `status` for the present generation and return the condition."""

        def look() -> dict[str, Any] | None:
            found = self.condition(kind, name, "Accepted")
            return found if found and found["status"] == status else None

        found = until(look, seconds, f"{kind} {name} has Accepted {status}", 0.1)
        assert found is not None
        return found

    def clear(self) -> None:
        """Delete every custom resource."""
        for plural in PLURALS.values():
            self._cluster.http.delete(f"/apis/outrigger.dev/v1alpha1/{plural}").raise_for_status()


@pytest.fixture(scope="module")
def control_plane(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A control plane that the controller of this module mirrors into."""
    cluster.namespace(LEASE_NAMESPACE)
    with ControlPlane(tmp_path_factory.mktemp("mirrored")) as started:
        yield started


@pytest.fixture(scope="module")
def running(
    cluster: Cluster, control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Program]:
    """The one controller."""
    folder = tmp_path_factory.mktemp("controller")
    with controller(folder, cluster.kubeconfig(), control_plane.url) as started:
        yield started


@pytest.fixture
def crs(cluster: Cluster, control_plane: ControlPlane, running: Program) -> Iterator[Resources]:
    """Custom resources, gone from the API too when a test ends."""
    resources = Resources(cluster)
    yield resources
    resources.clear()
    until(lambda: _documents(control_plane) == [], 20, f"nothing is left\n{running.log()[-3000:]}", 0.1)


def test_a_resource_is_in_the_api_with_both_conditions(crs: Resources, control_plane: ControlPlane) -> None:
    """Within five seconds a resource is a document, accepted and in force."""
    crs.put("Backend", "openai", url=URL)
    crs.put("Model", "gpt", versions=[{"name": "stable", "backend": "openai"}])
    accepted = crs.judged("Model", "gpt", "True")
    assert accepted["reason"] == "Accepted"
    programmed = until(lambda: crs.condition("Model", "gpt", "Programmed"), SECONDS, "Programmed", 0.1)
    assert programmed is not None
    assert programmed["status"] == "True", programmed
    document = control_plane.document("models", "gpt")
    assert document is not None
    assert document["spec"]["versions"][0]["backend"] == "openai"


def test_every_kind_is_mirrored(crs: Resources, control_plane: ControlPlane) -> None:
    """All seven kinds come to the API, whatever the order they are made in."""
    crs.put("Pin", "welcome", model="gpt", match={"lastUserMessage": "hi"}, answer="Welcome!")
    crs.put("Release", "next", model="gpt", **{"from": "stable", "to": "next"})
    crs.put("Policy", "cached", cache={"enabled": True})
    crs.put("Consumer", "team-a", tenant="team-a", tier="gold")
    crs.put("Tier", "gold", limits={"requestsPerMinute": 60})
    versions = [{"name": "stable", "backend": "openai"}, {"name": "next", "backend": "openai", "weight": 0}]
    crs.put("Model", "gpt", versions=versions)
    crs.put("Backend", "openai", url=URL)
    names = {
        "Pin": "welcome",
        "Release": "next",
        "Policy": "cached",
        "Consumer": "team-a",
        "Tier": "gold",
        "Model": "gpt",
        "Backend": "openai",
    }
    for kind, name in names.items():
        crs.judged(kind, name, "True")
        assert control_plane.document(PLURALS[kind], name) is not None
    status = until(
        lambda: _status(crs, "Release", "next").get("share") is not None and _status(crs, "Release", "next"),
        SECONDS,
        "the Release tells its share",
        0.1,
    )
    assert status
    assert status["share"] == 5


def test_a_reference_to_nothing_heals_when_it_comes(crs: Resources, control_plane: ControlPlane) -> None:
    """A Model whose Backend is not there is `UnknownReference`, and accepted once the Backend is."""
    crs.put("Model", "gpt", versions=[{"name": "stable", "backend": "late"}])
    refused = crs.judged("Model", "gpt", "False")
    assert refused["reason"] == "UnknownReference"
    assert "late" in refused["message"]
    programmed = crs.condition("Model", "gpt", "Programmed")
    assert programmed is not None
    assert programmed["status"] == "False"
    crs.put("Backend", "late", url=URL)
    crs.judged("Model", "gpt", "True")
    assert control_plane.document("models", "gpt") is not None


def test_a_bad_change_leaves_the_last_accepted_in_force(crs: Resources, control_plane: ControlPlane) -> None:
    """A refused change is told in the status; the API keeps the spec it has, until a good one comes."""
    crs.put("Backend", "openai", url=URL)
    crs.put("Model", "gpt", versions=[{"name": "stable", "backend": "openai"}])
    crs.judged("Model", "gpt", "True")
    crs.put("Model", "gpt", versions=[{"name": "stable", "backend": "gone"}])
    crs.judged("Model", "gpt", "False")
    document = control_plane.document("models", "gpt")
    assert document is not None
    assert document["spec"]["versions"][0]["backend"] == "openai"
    crs.put("Model", "gpt", versions=[{"name": "better", "backend": "openai"}])
    crs.judged("Model", "gpt", "True")
    until(lambda: _version(control_plane) == "better", SECONDS, "the good change is in the API", 0.1)


def test_a_name_made_by_rest_is_a_conflict(crs: Resources, control_plane: ControlPlane) -> None:
    """A document of REST's is never overwritten; with it gone the resource takes its place."""
    mine = {"limits": {"requestsPerMinute": 7}}
    control_plane.api.put("/tiers/gold", json=resource("Tier", "gold", mine)).raise_for_status()
    try:
        crs.put("Tier", "gold", limits={"requestsPerMinute": 60})
        assert crs.judged("Tier", "gold", "False")["reason"] == "Conflict"
        assert _limit(control_plane, "gold") == 7
    finally:
        control_plane.api.delete("/tiers/gold").raise_for_status()
    crs.judged("Tier", "gold", "True", 60)
    assert _limit(control_plane, "gold") == 60


def test_rest_cannot_change_what_is_mirrored(crs: Resources, control_plane: ControlPlane) -> None:
    """A change or deletion by REST is refused, or put back within a minute."""
    crs.put("Tier", "gold", limits={"requestsPerMinute": 60})
    crs.judged("Tier", "gold", "True")
    other = {"limits": {"requestsPerMinute": 7}}
    changed = control_plane.api.put("/tiers/gold", json=resource("Tier", "gold", other))
    deleted = control_plane.api.delete("/tiers/gold")
    assert {changed.status_code, deleted.status_code} == {409}
    assert "kubernetes" in changed.text.lower()
    assert _limit(control_plane, "gold") == 60


def test_a_deleted_resource_leaves_the_api(
    crs: Resources, cluster: Cluster, control_plane: ControlPlane
) -> None:
    """It goes at once from the API server (no finalizer), and soon from the API."""
    made = crs.put("Tier", "gold", limits={"requestsPerMinute": 60})
    assert "finalizers" not in made["metadata"]
    crs.judged("Tier", "gold", "True")
    crs.delete("Tier", "gold")
    assert cluster.http.get(path("Tier", "gold")).status_code == 404
    until(lambda: control_plane.document("tiers", "gold") is None, SECONDS, "gone from the API", 0.1)


def test_what_is_still_named_goes_with_the_last_that_names_it(
    crs: Resources, control_plane: ControlPlane
) -> None:
    """A deleted Backend serves on as long as a Model names it, and the Model says so."""
    crs.put("Backend", "openai", url=URL)
    crs.put("Model", "gpt", versions=[{"name": "stable", "backend": "openai"}])
    crs.judged("Model", "gpt", "True")
    crs.delete("Backend", "openai")
    assert crs.judged("Model", "gpt", "False")["reason"] == "UnknownReference"
    assert control_plane.document("backends", "openai") is not None
    crs.delete("Model", "gpt")
    until(lambda: _documents(control_plane) == [], SECONDS, "both are gone", 0.1)


def test_a_secret_is_read_and_rotated(crs: Resources, cluster: Cluster, control_plane: ControlPlane) -> None:
    """A Backend that names a Secret is accepted once it is there; its value is in no answer and no log."""
    crs.put("Backend", "openai", url=URL, credentials={"secretRef": {"name": "provider", "key": "api-key"}})
    secrets = f"/api/v1/namespaces/{LEASE_NAMESPACE}/secrets"
    marks = [_secret_marks(control_plane)]
    for value in ("first-secret-value", "second-secret-value"):
        data = {"api-key": base64.b64encode(value.encode()).decode()}
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "provider"}, "data": data}
        cluster.apply(f"{secrets}/provider", secret)
        crs.judged("Backend", "openai", "True")
        until(lambda: _secret_marks(control_plane) not in marks, SECONDS, "the value came", 0.1)
        marks.append(_secret_marks(control_plane))
        assert value not in control_plane.api.get("/audit").text
        assert value not in control_plane.log()
    cluster.http.delete(f"{secrets}/provider").raise_for_status()


def test_at_rest_nothing_is_written_and_little_asked(
    crs: Resources, cluster: Cluster, running: Program
) -> None:
    """With nothing to do: no write but the Lease's, and at most five requests a second."""
    assert running.ready()
    crs.put("Tier", "gold", limits={"requestsPerMinute": 60})
    crs.judged("Tier", "gold", "True")
    time.sleep(2)
    since = time.time()
    time.sleep(10)
    asked = [one for one in cluster.requests("admin", since) if _is_the_controllers(one.path)]
    writes = [one for one in asked if one.verb not in ("get", "list", "watch") and "/leases/" not in one.path]
    assert writes == []
    assert len(asked) <= 50, [(one.verb, one.path) for one in asked]


def test_a_thousand_resources_in_ten_seconds(
    crs: Resources, cluster: Cluster, control_plane: ControlPlane, running: Program
) -> None:
    """A thousand resources made at once are all accepted and programmed within ten seconds."""
    text = "\n---\n".join(_tier_yaml(number) for number in range(1000))
    running.kill(signal.SIGSTOP)
    try:
        cluster.kubectl("create", "-f", "-", stdin=text)
    finally:
        running.kill(signal.SIGCONT)
    started = time.monotonic()
    until(lambda: _programmed(cluster, "Tier") >= 1000, 60, "all are programmed", 0.5)
    took = time.monotonic() - started
    print(f"1,000 resources reconciled in {took:.1f} s")
    assert took <= 10
    assert control_plane.document("tiers", "t-999") is not None


def _documents(control_plane: ControlPlane) -> list[str]:
    return [
        f"{plural}/{one['metadata']['name']}"
        for plural in PLURALS.values()
        for one in control_plane.api.get(f"/{plural}").json()["items"]
    ]


def _status(crs: Resources, kind: str, name: str) -> dict[str, Any]:
    found: dict[str, Any] = crs._cluster.get(path(kind, name)).get("status", {})
    return found


def _version(control_plane: ControlPlane) -> str | None:
    document = control_plane.document("models", "gpt")
    return document["spec"]["versions"][0]["name"] if document else None


def _limit(control_plane: ControlPlane, tier: str) -> int | None:
    document = control_plane.document("tiers", tier)
    return document["spec"]["limits"]["requestsPerMinute"] if document else None


def _secret_marks(control_plane: ControlPlane) -> str:
    """Return what the API tells of its secrets: names and versions, never values."""
    return control_plane.api.get("/secrets").text


def _is_the_controllers(request_path: str) -> bool:
    return "/outrigger.dev/" in request_path or LEASE_NAMESPACE in request_path


def _tier_yaml(number: int) -> str:
    return (
        "apiVersion: outrigger.dev/v1alpha1\nkind: Tier\n"
        f"metadata: {{name: t-{number}}}\nspec: {{limits: {{requestsPerMinute: {number + 1}}}}}"
    )


def _programmed(cluster: Cluster, kind: str) -> int:
    """Return how many resources of `kind` are programmed in their present generation."""
    return sum(
        any(
            one["type"] == "Programmed"
            and one["status"] == "True"
            and one["observedGeneration"] == item["metadata"]["generation"]
            for one in item.get("status", {}).get("conditions", [])
        )
        for item in cluster.get(path(kind))["items"]
    )
