"""The chart on a real API server: every object is taken, and its accounts may do exactly what they need."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from tests.e2e.kubernetes.cluster import Cluster
from tests.e2e.kubernetes.custom_resources import path, resource
from tests.e2e.kubernetes.programs import LEASE_NAMESPACE, ControlPlane, Program, controller
from tests.harness.chart import PRODUCTION, objects
from tests.harness.processes import free_ports, until

# Kinds of other projects, whose definitions this API server does not have.
FOREIGN: Final = ("cert-manager.io", "monitoring.coreos.com")
VALUES: Final[dict[str, dict[str, Any]]] = {
    "default": {},
    "production": yaml.safe_load(PRODUCTION.read_text("utf-8")),
    "bundled": {
        "redis": {"bundled": {"enabled": True}},
        "postgresql": {"bundled": {"enabled": True}},
        "networkPolicy": {"enabled": True},
        "controlPlane": {"autoscaling": {"enabled": True}, "podDisruptionBudget": {"enabled": True}},
        "grafanaDashboard": {"enabled": True},
    },
}
RESTRICTED: Final = {"pod-security.kubernetes.io/enforce": "restricted"}
REGISTRATION: Final = "MutatingWebhookConfiguration"
MANAGED: Final = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/outrigger"


@pytest.mark.parametrize("case", sorted(VALUES))
def test_every_object_is_taken(cluster: Cluster, case: str) -> None:
    """Server-side apply takes every object without a warning, pods by the restricted standard too."""
    namespace = cluster.namespace(
        f"chart-{case}", {**RESTRICTED, "pod-security.kubernetes.io/warn": "restricted"}
    )
    found = [
        one
        for one in objects(VALUES[case], name="outrigger", namespace=namespace)
        if not one["apiVersion"].startswith(FOREIGN)
    ]
    said = cluster.kubectl(
        "apply", "--server-side", "--dry-run=server", "-f", "-", stdin=yaml.safe_dump_all(found)
    )
    assert "Warning" not in said
    assert said.count("serverside-applied") == len(found)


@dataclass(frozen=True, slots=True)
class Installed:
    """A release of the chart whose programs run here, as its service accounts."""

    cluster: Cluster
    control_plane: ControlPlane
    controller: Program
    accounts: dict[str, str]


@pytest.fixture(scope="module")
def installed(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installed]:
    """The chart with its default values, applied; the webhook is called on loopback."""
    folder = tmp_path_factory.mktemp("installed")
    webhook_port = free_ports(1)[0]
    cluster.namespace(LEASE_NAMESPACE, RESTRICTED)
    found = objects(VALUES["default"], name="outrigger", namespace=LEASE_NAMESPACE)
    for one in found:
        if one["kind"] == REGISTRATION:
            for webhook in one["webhooks"]:
                webhook["clientConfig"] = {"url": f"https://localhost:{webhook_port}/inject"}
    cluster.kubectl("apply", "--server-side", "-f", "-", stdin=yaml.safe_dump_all(found))
    accounts = {
        component: next(
            one["spec"]["template"]["spec"]["serviceAccountName"]
            for one in found
            if one["kind"] == "Deployment"
            and one["metadata"]["labels"]["app.kubernetes.io/component"] == component
        )
        for component in ("control-plane", "controller")
    }
    environment = {
        **_environment(found, "control-plane"),
        "KUBECONFIG": str(_kubeconfig(cluster, accounts["control-plane"])),
        "POD_NAMESPACE": LEASE_NAMESPACE,
        "OUTRIGGER_WEBHOOK_PORT": str(webhook_port),
        "OUTRIGGER_WEBHOOK_SERVICE": "localhost",
    }
    try:
        with (
            ControlPlane(folder, environment=environment) as plane,
            controller(folder, _kubeconfig(cluster, accounts["controller"]), plane.url) as mirror,
        ):
            yield Installed(cluster, plane, mirror, accounts)
    finally:
        cluster.http.delete(MANAGED)


def test_the_controller_needs_no_more_than_its_rules(installed: Installed) -> None:
    """As its own service account it mirrors, reads a Secret of its namespace, and writes the status."""
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "provider"},
        "stringData": {"k": "v"},
    }
    installed.cluster.apply(f"/api/v1/namespaces/{LEASE_NAMESPACE}/secrets/provider", secret)
    spec = {
        "url": "https://api.example.com/v1",
        "credentials": {"secretRef": {"name": "provider", "key": "k"}},
    }
    installed.cluster.apply(path("Backend", "charted"), resource("Backend", "charted", spec))
    try:
        until(lambda: _programmed(installed.cluster, "charted"), 10, "the Backend is programmed", 0.1)
    finally:
        installed.cluster.http.delete(path("Backend", "charted")).raise_for_status()


def test_the_webhook_registers_its_own_authority(installed: Installed) -> None:
    """Its certificate is in the Secret of the chart, its authority in the registration; pods are in."""
    _injected_pod(installed, "app")
    secrets = installed.cluster.get(f"/api/v1/namespaces/{LEASE_NAMESPACE}/secrets")["items"]
    (certificate,) = (one for one in secrets if one["metadata"]["name"].endswith("-certificate"))
    assert {"tls.crt", "tls.key"} <= set(certificate["data"])
    registered = installed.cluster.get(MANAGED)["webhooks"][0]["clientConfig"]
    assert registered["caBundle"]


def test_a_sidecar_is_who_its_token_says(installed: Installed, tmp_path: Path) -> None:
    """By a token that is bound to a pod, its sidecar joins as that pod, whatever it says of itself."""
    pod = _injected_pod(installed, "checkout")
    token = installed.cluster.service_account_token("charted", "default", "outrigger", pod)
    (tmp_path / "token").write_text(token)
    (tmp_path / "ca.pem").write_text(pod["metadata"]["annotations"]["outrigger.dev/control-plane-ca"])
    proxy, admin, health, metrics = (str(port) for port in free_ports(4))
    words = [
        "sidecar", "--external-envoy",
        "--run-dir", str(tmp_path / "run"),
        "--data-dir", str(tmp_path / "data"),
        "--control-plane", f"localhost:{installed.control_plane.push_port}",
        "--control-plane-ca", str(tmp_path / "ca.pem"),
        "--token-file", str(tmp_path / "token"),
        "--workload", "made-up", "--sidecar-id", "other/made-up",
        "--proxy-port", proxy, "--envoy-admin-port", admin,
        "--health-port", health, "--metrics-port", metrics,
    ]  # fmt: skip
    sidecar = Program(tmp_path, "sidecar", words, f"http://127.0.0.1:{metrics}/healthz").launch()
    try:
        found = until(
            lambda: installed.control_plane.api.get("/sidecars").json()["items"],
            40,
            f"the sidecar has joined\n{sidecar.log()[-2000:]}",
            0.2,
        )
        (joined,) = found
        assert joined["id"] == "charted/checkout"
        assert joined["workload"] == "checkout"
        assert joined["labels"]["namespace"] == "charted"
    finally:
        sidecar.stop()


def test_an_upgrade_leaves_certificate_and_authority(installed: Installed) -> None:
    """Applying the chart again changes neither the Secret nor the caBundle that the control plane wrote."""
    test_the_webhook_registers_its_own_authority(installed)
    cluster = installed.cluster
    secrets = f"/api/v1/namespaces/{LEASE_NAMESPACE}/secrets"
    before = {one["metadata"]["name"]: one.get("data") for one in cluster.get(secrets)["items"]}
    bundle = cluster.get(MANAGED)["webhooks"][0]["clientConfig"]["caBundle"]
    found = objects(VALUES["default"], name="outrigger", namespace=LEASE_NAMESPACE)
    again = [
        one
        for one in found
        # Without Helm the chart cannot look up what it drew by lot: tokens are drawn anew at each rendering.
        if one["kind"] not in (REGISTRATION, "Secret") or one["metadata"]["name"].endswith("-certificate")
    ]
    cluster.kubectl("apply", "--server-side", "-f", "-", stdin=yaml.safe_dump_all(again))
    after = {one["metadata"]["name"]: one.get("data") for one in cluster.get(secrets)["items"]}
    assert after == before
    assert cluster.get(MANAGED)["webhooks"][0]["clientConfig"]["caBundle"] == bundle


def test_nobody_asks_for_what_it_may_not(installed: Installed) -> None:
    """Of all that the programs have asked so far, nothing was forbidden. Stands after the tests above."""
    for account in installed.accounts.values():
        user = f"system:serviceaccount:{LEASE_NAMESPACE}:{account}"
        asked = installed.cluster.requests(user)
        assert asked, f"{user} has asked nothing"
        assert [(one.verb, one.path) for one in asked if one.status == 403] == []


@pytest.mark.parametrize(
    ("verb", "group", "kind", "namespace"),
    [
        ("list", "", "secrets", None),
        ("get", "", "secrets", "default"),
        ("update", "outrigger.dev", "backends", None),
        ("delete", "outrigger.dev", "backends", None),
        ("create", "", "pods", "default"),
        ("create", "rbac.authorization.k8s.io", "clusterroles", None),
        ("update", "admissionregistration.k8s.io", "mutatingwebhookconfigurations", None),
    ],
)
def test_the_accounts_may_do_no_harm(
    installed: Installed, verb: str, group: str, kind: str, namespace: str | None
) -> None:
    """Neither account reads Secrets elsewhere, changes policy, makes pods or grants itself anything."""
    attributes = {"verb": verb, "group": group, "resource": kind, "namespace": namespace or ""}
    for account in installed.accounts.values():
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {
                "user": f"system:serviceaccount:{LEASE_NAMESPACE}:{account}",
                "resourceAttributes": attributes,
            },
        }
        told = installed.cluster.create("/apis/authorization.k8s.io/v1/subjectaccessreviews", review)
        assert told["status"]["allowed"] is False, account


def _injected_pod(installed: Installed, name: str) -> dict[str, Any]:
    """Make a pod in a labelled namespace, once the webhook answers, and return it as stored."""
    namespace = installed.cluster.namespace("charted", {"outrigger.dev/inject": "enabled"})
    pods = f"/api/v1/namespaces/{namespace}/pods"
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"containers": [{"name": "app", "image": "example.com/app:1"}]},
    }

    def is_in() -> bool:
        stored = installed.cluster.http.post(pods, params={"dryRun": "All"}, json=pod).json()
        return any(one["name"] == "outrigger-envoy" for one in stored["spec"].get("initContainers", []))

    until(is_in, 10, f"the pod is in\n{installed.control_plane.log()[-2000:]}", 0.2)
    installed.cluster.http.delete(f"{pods}/{name}", params={"gracePeriodSeconds": "0"})
    return installed.cluster.create(pods, pod)


def _environment(found: list[dict[str, Any]], component: str) -> dict[str, str]:
    """Return the plain variables of a rendered Deployment, ports and folders left out."""
    (container,) = (
        container
        for one in found
        if one["kind"] == "Deployment"
        and one["metadata"]["labels"]["app.kubernetes.io/component"] == component
        for container in one["spec"]["template"]["spec"]["containers"]
    )
    own = ("_PORT", "_BIND", "_DATA_DIR")
    return {
        one["name"]: one["value"]
        for one in container["env"]
        if "value" in one and not one["name"].endswith(own)
    }


def _kubeconfig(cluster: Cluster, account: str) -> Path:
    token = cluster.service_account_token(LEASE_NAMESPACE, account)
    return cluster.kubeconfig(token, account, LEASE_NAMESPACE)


def _programmed(cluster: Cluster, name: str) -> bool:
    conditions = cluster.get(path("Backend", name)).get("status", {}).get("conditions", [])
    return {one["type"]: one["status"] for one in conditions} == {"Accepted": "True", "Programmed": "True"}
