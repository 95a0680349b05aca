"""Real pods through the API server's admission: what is stored is what a kubelet would run."""

from __future__ import annotations

import base64
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.kubernetes.cluster import Cluster
from tests.e2e.kubernetes.programs import ControlPlane
from tests.harness.mesh import OUTRIGGER
from tests.harness.processes import free_ports

CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
OURS = ["outrigger-processor", "outrigger-envoy"]
BASE_URL = {"name": "OPENAI_BASE_URL", "value": "http://127.0.0.1:10000/v1"}
IN = {"outrigger.dev/inject": "enabled"}
RESTRICTED = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "runAsNonRoot": True,
    "runAsUser": 1000,
    "seccompProfile": {"type": "RuntimeDefault"},
}


@pytest.fixture(scope="module")
def webhook(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A control plane whose webhook is registered twice, as where two releases of a chart meet."""
    folder = tmp_path_factory.mktemp("webhook")
    port = free_ports(1)[0]
    certificate = cluster.authority.issue_cert("127.0.0.1", "localhost")
    (folder / "tls.crt").write_bytes(b"".join(one.bytes() for one in certificate.cert_chain_pems))
    certificate.private_key_pem.write_to_path(folder / "tls.key")
    options = ["--webhook-port", str(port), "--webhook-cert", f"{folder}/tls.crt"]
    options += ["--webhook-key", f"{folder}/tls.key"]
    environment = {"POD_NAMESPACE": "outrigger-system"}
    with ControlPlane(folder, options, environment) as started:
        names = ["outrigger", "outrigger-again"]
        for name in names:
            cluster.create(CONFIGURATIONS, _configuration(name, port, cluster))
        yield started
        for name in names:
            cluster.http.delete(f"{CONFIGURATIONS}/{name}")


@pytest.fixture(scope="module")
def shop(cluster: Cluster, webhook: ControlPlane) -> str:
    """A namespace that is in, and that takes only pods of the restricted standard."""
    assert webhook.ready()
    return cluster.namespace("shop", {**IN, "pod-security.kubernetes.io/enforce": "restricted"})


def test_a_pod_of_a_labelled_namespace_is_in(cluster: Cluster, shop: str) -> None:
    """Its sidecars come before its own init containers, once, and every container is told where to call."""
    pod = _pod("shop-1", init=["first", "second"])
    stored = cluster.create(f"/api/v1/namespaces/{shop}/pods", pod)["spec"]
    assert [one["name"] for one in stored["initContainers"]] == [*OURS, "first", "second"]
    assert [one.get("restartPolicy") for one in stored["initContainers"]] == ["Always", "Always", None, None]
    assert all("startupProbe" in one for one in stored["initContainers"][:2])
    assert "readinessProbe" not in stored["initContainers"][0]
    for container in [*stored["initContainers"][2:], *stored["containers"]]:
        assert BASE_URL in container["env"]


def test_a_value_of_the_application_stays(cluster: Cluster, shop: str) -> None:
    """An `OPENAI_BASE_URL` that is set is kept."""
    pod = _pod("shop-2")
    own = {"name": "OPENAI_BASE_URL", "value": "https://elsewhere.example.com/v1"}
    pod["spec"]["containers"][0]["env"] = [own]
    stored = cluster.create(f"/api/v1/namespaces/{shop}/pods", pod)["spec"]
    assert [one for one in stored["containers"][0]["env"] if one["name"] == own["name"]] == [own]


def test_a_generated_name_is_no_hindrance(cluster: Cluster, shop: str) -> None:
    """A pod as a Deployment makes it, without a name and a namespace of its own, is in."""
    pod = _pod("shop-")
    pod["metadata"] = {"generateName": "shop-", "labels": {"a.b/c-d": "e"}}
    stored = cluster.create(f"/api/v1/namespaces/{shop}/pods", pod)
    assert _sidecars(stored) == OURS
    assert stored["metadata"]["labels"]["a.b/c-d"] == "e"


def test_a_dry_run_shows_the_sidecars(cluster: Cluster, shop: str) -> None:
    """`--dry-run=server` is answered as the real thing and stores nothing."""
    pods = f"/api/v1/namespaces/{shop}/pods"
    answer = cluster.http.post(pods, params={"dryRun": "All"}, json=_pod("dry"))
    assert answer.status_code == 201, answer.text
    assert _sidecars(answer.json()) == OURS
    assert cluster.http.get(f"{pods}/dry").status_code == 404


@pytest.mark.parametrize("where", ["labels", "annotations"])
def test_a_pod_may_stay_out(cluster: Cluster, shop: str, where: str) -> None:
    """A label or an annotation keeps a pod out."""
    pod = _pod(f"out-{where}")
    pod["metadata"][where] = {"outrigger.dev/inject": "disabled"}
    assert _sidecars(cluster.create(f"/api/v1/namespaces/{shop}/pods", pod)) == []


def test_a_port_of_the_pods_own_choice(cluster: Cluster, shop: str) -> None:
    """The annotation moves the proxy, and containers are told."""
    pod = _pod("port")
    pod["metadata"]["annotations"] = {"outrigger.dev/proxy-port": "12345"}
    stored = cluster.create(f"/api/v1/namespaces/{shop}/pods", pod)["spec"]
    assert {"name": "OPENAI_BASE_URL", "value": "http://127.0.0.1:12345/v1"} in stored["containers"][0]["env"]


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"hostNetwork": True}, id="host network"),
        pytest.param({"ports": [{"containerPort": 10000}]}, id="the proxy's port"),
    ],
)
def test_what_cannot_be_in_is_told(cluster: Cluster, webhook: ControlPlane, change: dict[str, Any]) -> None:
    """A pod that would not work with a sidecar is stored as it came, and its maker is warned."""
    assert webhook.ready()
    namespace = cluster.namespace("lax", IN)
    pod = _pod("cannot")
    if "ports" in change:
        pod["spec"]["containers"][0].update(change)
    else:
        pod["spec"].update(change)
    answer = cluster.http.post(f"/api/v1/namespaces/{namespace}/pods", params={"dryRun": "All"}, json=pod)
    assert answer.status_code == 201, answer.text
    assert _sidecars(answer.json()) == []
    assert "outrigger" in answer.headers["warning"].lower()


def test_a_name_like_ours_is_no_sidecar(cluster: Cluster, webhook: ControlPlane) -> None:
    """A pod that already has a container called like ours is left alone, with a reason."""
    assert webhook.ready()
    pod = _pod("same-name")
    pod["spec"]["containers"].append({**pod["spec"]["containers"][0], "name": OURS[0]})
    namespace = cluster.namespace("lax", IN)
    answer = cluster.http.post(f"/api/v1/namespaces/{namespace}/pods", params={"dryRun": "All"}, json=pod)
    assert answer.status_code != 500, answer.text
    if answer.status_code == 201:
        assert _sidecars(answer.json()) == []
        assert OURS[0] in answer.headers["warning"]


@pytest.mark.parametrize("namespace", ["kube-system", "outrigger-system", "plain"])
def test_other_namespaces_are_left_alone(cluster: Cluster, webhook: ControlPlane, namespace: str) -> None:
    """Namespaces of Kubernetes' own and of ours are never in, labelled or not; others only with the label."""
    assert webhook.ready()
    cluster.namespace(namespace, {} if namespace == "plain" else IN)
    answer = cluster.http.post(
        f"/api/v1/namespaces/{namespace}/pods", params={"dryRun": "All"}, json=_pod("left-alone")
    )
    assert answer.status_code == 201, answer.text
    assert _sidecars(answer.json()) == []


def test_inject_does_offline_what_the_webhook_does(cluster: Cluster, shop: str, tmp_path: Path) -> None:
    """What `outrigger inject` prints is taken, and comes back through the webhook unchanged."""
    pod = _pod("offline", init=["first"])
    file = tmp_path / "pod.yaml"
    file.write_text(yaml.safe_dump(pod))
    done = subprocess.run(
        [str(OUTRIGGER), "inject", "-f", str(file)], capture_output=True, text=True, check=True, timeout=60
    )
    printed = yaml.safe_load(done.stdout)
    pods = f"/api/v1/namespaces/{shop}/pods"
    by_hand = cluster.http.post(pods, params={"dryRun": "All"}, json=printed)
    assert by_hand.status_code == 201, by_hand.text
    by_webhook = cluster.http.post(pods, params={"dryRun": "All"}, json=pod)
    assert [one["name"] for one in by_hand.json()["spec"]["initContainers"]] == [*OURS, "first"]
    assert _shape(by_hand.json()) == _shape(by_webhook.json())


def test_an_injected_pod_can_be_applied_again(cluster: Cluster, shop: str) -> None:
    """`kubectl apply` of the same file twice changes nothing and is no error."""
    text = yaml.safe_dump(_pod("twice"))
    cluster.kubectl("apply", "-n", shop, "-f", "-", stdin=text)
    assert "unchanged" in cluster.kubectl("apply", "-n", shop, "-f", "-", stdin=text)
    assert "serverside-applied" in cluster.kubectl(
        "apply",
        "-n",
        shop,
        "--server-side",
        "--field-manager=gitops",
        "--force-conflicts",
        "-f",
        "-",
        stdin=text,
    )


def test_pods_are_made_while_the_webhook_is_away(cluster: Cluster, webhook: ControlPlane, shop: str) -> None:
    """`failurePolicy: Ignore`: a dead webhook holds no pod back. The last test here: it ends the webhook."""
    webhook.kill()
    stored = cluster.create(f"/api/v1/namespaces/{shop}/pods", _pod("alone"))
    assert _sidecars(stored) == []


def _configuration(name: str, port: int, cluster: Cluster) -> dict[str, Any]:
    own = ["kube-system", "kube-public", "kube-node-lease", "outrigger-system"]
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": name},
        "webhooks": [
            {
                "name": "inject.outrigger.dev",
                "clientConfig": {
                    "url": f"https://127.0.0.1:{port}/inject",
                    "caBundle": _base64(cluster.ca_pem),
                },
                "rules": [
                    {
                        "apiGroups": [""],
                        "apiVersions": ["v1"],
                        "operations": ["CREATE"],
                        "resources": ["pods"],
                        "scope": "Namespaced",
                    }
                ],
                "namespaceSelector": {
                    "matchExpressions": [
                        {"key": "outrigger.dev/inject", "operator": "In", "values": ["enabled"]},
                        {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": own},
                    ]
                },
                "failurePolicy": "Ignore",
                "timeoutSeconds": 5,
                "sideEffects": "None",
                "reinvocationPolicy": "IfNeeded",
                "admissionReviewVersions": ["v1"],
            }
        ],
    }


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def _pod(name: str, init: list[str] | None = None) -> dict[str, Any]:
    container = {"image": "example.com/app:1", "securityContext": RESTRICTED}
    spec: dict[str, Any] = {"containers": [{**container, "name": "app"}]}
    if init:
        spec["initContainers"] = [{**container, "name": one} for one in init]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def _sidecars(pod: dict[str, Any]) -> list[str]:
    """Return the names of our containers in `pod`, wherever they stand, but in the application's place."""
    return [one["name"] for one in pod["spec"].get("initContainers", []) if one["name"] in OURS]


def _shape(pod: dict[str, Any]) -> dict[str, Any]:
    """Return the pod's spec without what is named anew for each pod."""
    spec: dict[str, Any] = pod["spec"]
    for volume in spec["volumes"]:
        if volume["name"].startswith("kube-api-access-"):
            generated = volume["name"]
    text = yaml.safe_dump(spec).replace(generated, "kube-api-access")
    shape: dict[str, Any] = yaml.safe_load(text)
    shape["volumes"].sort(key=lambda volume: str(volume["name"]))
    return shape
