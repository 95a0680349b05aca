"""Injection as a cluster sees it: reviews over TLS, and the injected pair run by its own command lines."""

from __future__ import annotations

import base64
import json
import os
import signal
import ssl
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import jsonpatch
import pytest
import trustme

from ext_proc.agent.bootstrap import find_envoy
from tests.e2e.governed import BACKEND
from tests.harness.api_server import ApiServer
from tests.harness.mesh import OUTRIGGER, http_status
from tests.harness.processes import free_ports, until
from tests.unit.control_plane.auth.test_service_accounts import token
from tests.unit.control_plane.webhook.pods import pod
from tests.unit.control_plane.webhook.test_keeping import REGISTRATION
from tests.unit.control_plane.webhook.test_reviews import asked

ADMIN = "an-admin-token-for-tests"
SECRET = "/api/v1/namespaces/mesh/secrets/outrigger-webhook"


@dataclass
class Running:
    """A process with its log."""

    folder: Path
    command: Sequence[str]
    environment: Mapping[str, str]
    process: subprocess.Popen[bytes] = field(init=False)

    def __enter__(self) -> Running:
        with (self.folder / f"{Path(self.command[0]).name}.log").open("ab") as log:
            self.process = subprocess.Popen(
                list(self.command),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, **self.environment},
            )
        return self

    def __exit__(self, *_: object) -> None:
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(15)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(10)

    def log(self) -> str:
        """Return what it has written."""
        return (self.folder / f"{Path(self.command[0]).name}.log").read_text(errors="replace")


@dataclass(frozen=True)
class Site:
    """A control plane in an emulated cluster."""

    folder: Path
    api_port: int
    push_port: int
    webhook_port: int
    cluster: ApiServer

    @property
    def api(self) -> httpx.Client:
        """A client of its API."""
        headers = {"authorization": f"Bearer {ADMIN}"}
        return httpx.Client(base_url=f"http://127.0.0.1:{self.api_port}/api/v1", headers=headers)

    def authority(self) -> str:
        """Return the authority that the API server was told."""
        webhook = self.cluster.cluster.objects[REGISTRATION]["webhooks"][0]
        return base64.b64decode(webhook["clientConfig"]["caBundle"]).decode()

    def review(self, document: object) -> httpx.Response:
        """Ask for a review as the API server does: it verifies the Service's name by that authority."""
        context = ssl.create_default_context(cadata=self.authority())
        with httpx.Client(verify=context) as client:
            return client.post(
                f"https://127.0.0.1:{self.webhook_port}/inject?timeout=5s",
                content=json.dumps(document),
                headers={"host": "outrigger-webhook.mesh.svc"},
                extensions={"sni_hostname": "outrigger-webhook.mesh.svc"},
            )

    def injected(self, original: dict[str, Any]) -> dict[str, Any]:
        """Return `original` as the API server would store it."""
        response = self.review(asked(original)).json()["response"]
        patch = json.loads(base64.b64decode(response["patch"]))
        result = jsonpatch.apply_patch(original, patch)
        assert isinstance(result, dict)
        return result


@pytest.fixture(scope="module")
def site(simulated: int, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A control plane that manages its certificate and asks the API server whose tokens are."""
    folder = tmp_path_factory.mktemp("cluster")
    api_port, push_port, webhook_port = free_ports(3)
    (folder / "mesh.yaml").write_text(
        BACKEND.format(name="simulated", port=simulated, default="true")
        + "---\nkind: Policy\nmetadata: {name: shop}\n"
        "spec: {target: {workloads: [checkout]}, cache: {enabled: true}}\n"
    )
    with ApiServer() as cluster:
        webhook = {"name": "pods.outrigger.dev", "clientConfig": {"service": {"name": "outrigger-webhook"}}}
        cluster.cluster.put(REGISTRATION, {"metadata": {"name": "outrigger"}, "webhooks": [webhook]})
        cluster.cluster.put(SECRET, {"metadata": {"name": "outrigger-webhook", "namespace": "mesh"}})
        cluster.cluster.collections["/api/v1/namespaces"] = [{"metadata": {"name": "shop"}}]
        cluster.cluster.collections["/api/v1/namespaces/shop/pods"] = [pod()]
        command = [
            str(OUTRIGGER), "control-plane", "-f", str(folder / "mesh.yaml"),
            "--data-dir", str(folder / "data"),
            "--api-port", str(api_port), "--push-port", str(push_port),
            "--webhook-port", str(webhook_port), "--webhook-name", "outrigger", "--token-review",
            "--sidecar-control-plane", f"127.0.0.1:{push_port}",
        ]  # fmt: skip
        environment = {
            "KUBECONFIG": str(cluster.kubeconfig(folder / "kubeconfig")),
            "POD_NAMESPACE": "mesh",
            "OUTRIGGER_ADMIN_TOKEN": ADMIN,
        }
        with Running(folder, command, environment) as process:
            until(
                lambda: (
                    http_status(f"http://127.0.0.1:{api_port}/readyz") == 200
                    or process.process.poll() is not None
                ),
                40,
                "the control plane is ready",
            )
            assert process.process.poll() is None, process.log()
            yield Site(folder, api_port, push_port, webhook_port, cluster)


def test_a_deployment_s_pod_and_a_job_s_get_their_pair(site: Site) -> None:
    """With no name and no namespace of their own yet, over TLS that the API server can verify."""
    for kind, spec in (("ReplicaSet", {}), ("Job", {"restartPolicy": "Never"})):
        owner = {"apiVersion": "v1", "kind": kind, "name": "shop-5f4b", "uid": "u", "controller": True}
        made = pod(spec)
        made["metadata"] = {
            "generateName": "shop-5f4b-",
            "ownerReferences": [owner],
            "labels": {"pod-template-hash": "5f4b"},
        }
        names = [item["name"] for item in site.injected(made)["spec"]["initContainers"]]
        assert names == ["outrigger-processor", "outrigger-envoy"]


@pytest.mark.parametrize("document", [{}, [], {"kind": "AdmissionReview"}, asked(None)], ids=repr)
def test_a_malformed_review_is_the_caller_s_fault(site: Site, document: object) -> None:
    """A 4xx with a sentence; the next review is answered as ever."""
    answer = site.review(document)
    assert answer.status_code == 400
    assert answer.text.startswith("the ")
    assert site.review(asked(pod())).status_code == 200


def test_reviews_and_missed_pods_show_in_the_metrics(site: Site) -> None:
    """On the API's port, beside all else."""
    site.review(asked(pod()))

    def missed() -> bool:
        return "outrigger_webhook_missed_pods 1.0" in metrics()

    def metrics() -> str:
        url = f"http://127.0.0.1:{site.api_port}/metrics"
        return httpx.get(url, headers={"authorization": f"Bearer {ADMIN}"}).text

    until(missed, 5, "the pod without a sidecar is counted")
    assert 'outrigger_webhook_reviews_total{result="injected"}' in metrics()


class Pair:
    """The pair of one pod, run by the command lines that injection gave it, paths and ports adapted."""

    def __init__(self, result: dict[str, Any], folder: Path) -> None:
        self.processor, self.envoy = result["spec"]["initContainers"][:2]
        (folder / "token").write_text(token(name="checkout"))
        (folder / "ca.pem").write_text(result["metadata"]["annotations"]["outrigger.dev/control-plane-ca"])
        paths = {
            "/run/outrigger": str(folder / "run"),
            "/var/lib/outrigger": str(folder / "data"),
            "/var/run/secrets/outrigger": str(folder),
            "$(POD_NAMESPACE)/$(POD_NAME)": "forged/name",
        }
        self._paths = paths
        theirs = [
            "10000",
            "19003",
            *(str(item["ports"][0]["containerPort"]) for item in (self.processor, self.envoy)),
        ]
        self._moved = dict(zip(theirs, map(str, free_ports(len(theirs))), strict=True))
        self.proxy = int(self._moved["10000"])

    def arguments(self, container: Mapping[str, Any]) -> list[str]:
        """Return a container's arguments as they are here."""
        return [self._adapted(word) for word in container["args"]]

    def _adapted(self, word: str) -> str:
        for theirs, ours in self._paths.items():
            if word == theirs or word.startswith(f"{theirs}/"):
                return ours + word.removeprefix(theirs)
        return self._moved.get(word, word)

    def probed(self, container: Mapping[str, Any], probe: str) -> int:
        """Return what a kubelet's probe of a container is answered."""
        asked = container[probe]["httpGet"]
        return http_status(f"http://127.0.0.1:{self._moved[str(asked['port'])]}{asked['path']}")


def test_the_injected_pair_serves_a_pod(site: Site, tmp_path: Path) -> None:
    """Its own command lines make it join by its service account, answer every probe, and pass calls on.

    What the API server has of the pod decides who it is, whatever its command line says; a processor that
    hangs takes no probe of Envoy's away.
    """
    shown = token(name="checkout")
    site.cluster.tokens[shown] = {
        "authenticated": True,
        "audiences": ["outrigger"],
        "user": {
            "username": "system:serviceaccount:shop:default",
            "extra": {
                "authentication.kubernetes.io/pod-name": ["checkout-1"],
                "authentication.kubernetes.io/pod-uid": ["u-1"],
            },
        },
    }
    known = {"name": "checkout-1", "uid": "u-1", "labels": {"app": "checkout"}}
    site.cluster.cluster.put("/api/v1/namespaces/shop/pods/checkout-1", {"metadata": known})
    pair = Pair(site.injected(pod(labels={"app": "forged"})), tmp_path)
    envoy = [str(find_envoy(os.environ)), *pair.arguments(pair.envoy)]
    with Running(tmp_path, [str(OUTRIGGER), *pair.arguments(pair.processor)], {}) as processor:
        until(
            lambda: (
                pair.probed(pair.processor, "startupProbe") == 200 or processor.process.poll() is not None
            ),
            40,
            "the processor's container has started",
        )
        assert processor.process.poll() is None, processor.log()
        assert pair.probed(pair.processor, "livenessProbe") == 200
        with Running(tmp_path, envoy, {}):
            until(lambda: pair.probed(pair.envoy, "startupProbe") == 200, 20, "Envoy has started")
            assert pair.probed(pair.envoy, "readinessProbe") == 200
            body = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
            url = f"http://127.0.0.1:{pair.proxy}/v1/chat/completions"
            first, second = (httpx.post(url, json=body, timeout=20) for _ in range(2))
            assert first.status_code == 200, first.text
            assert first.headers["x-outrigger-cache"] == "miss"
            # The Policy is for the workload that the API server knows.
            assert second.headers["x-outrigger-cache"] == "hit"
            [sidecar] = site.api.get("/sidecars").json()["items"]
            assert (sidecar["id"], sidecar["workload"]) == ("shop/checkout-1", "checkout")
            assert sidecar["labels"]["namespace"] == "shop"
            processor.process.send_signal(signal.SIGSTOP)
            assert pair.probed(pair.envoy, "livenessProbe") == 200
            processor.process.send_signal(signal.SIGCONT)


def test_a_renewed_certificate_file_is_served(tmp_path: Path) -> None:
    """Given files are served as they are at each moment, and no cluster is needed for that."""
    authority = trustme.CA()

    def issue() -> bytes:
        made = authority.issue_cert("localhost")
        made.private_key_pem.write_to_path(tmp_path / "key.pem")
        (tmp_path / "cert.pem").write_bytes(b"".join(pem.bytes() for pem in made.cert_chain_pems))
        return made.cert_chain_pems[0].bytes()

    def served() -> bytes:
        return ssl.get_server_certificate(("localhost", port), timeout=5).encode()

    first = issue()
    api_port, push_port, port = free_ports(3)
    command = [
        str(OUTRIGGER), "control-plane", "--data-dir", str(tmp_path / "data"),
        "--api-port", str(api_port), "--push-port", str(push_port), "--webhook-port", str(port),
        "--webhook-cert", str(tmp_path / "cert.pem"), "--webhook-key", str(tmp_path / "key.pem"),
    ]  # fmt: skip
    with Running(tmp_path, command, {"OUTRIGGER_ADMIN_TOKEN": ADMIN, "KUBECONFIG": ""}) as process:
        until(lambda: http_status(f"http://127.0.0.1:{api_port}/readyz") == 200, 40, "it is ready")
        assert process.process.poll() is None, process.log()
        assert served().split() == first.split()
        second = issue()
        until(lambda: served().split() == second.split(), 15, "the renewed certificate is served")
