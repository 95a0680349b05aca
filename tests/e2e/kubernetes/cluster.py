"""A Kubernetes API server of a test's own: etcd and kube-apiserver from a folder, on loopback.

There is no kubelet and no controller of Kubernetes: objects are stored, checked, admitted and watched, and
nothing runs. https://book.kubebuilder.io/reference/envtest
"""

from __future__ import annotations

import calendar
import json
import os
import signal
import ssl
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

import httpx
import trustme
import yaml
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from tests.harness.mesh import http_status
from tests.harness.processes import free_ports, until

ADMIN_TOKEN: Final = "admin-of-the-tests"
READY_SECONDS: Final = 60.0
ISSUER: Final = "https://kubernetes.default.svc"
# Whole requests only: a watch counts when it starts and again when it ends.
AUDIT_POLICY: Final = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [{"level": "Metadata"}],
}


class ClusterFailed(Exception):
    """etcd or the API server did not start; the message ends with its log."""


@dataclass(frozen=True, slots=True)
class Request:
    """One request as the API server's audit log tells it."""

    at: float
    user: str
    verb: str
    path: str
    status: int
    stage: str


class Cluster:
    """One running etcd with one API server. Use it as a context manager.

    Args:
        assets: the folder of `etcd` and `kube-apiserver` (`KUBEBUILDER_ASSETS`).
        folder: where data, certificates and logs are kept; made when missing.
        options: more options of kube-apiserver.
    """

    def __init__(self, assets: Path, folder: Path, options: Sequence[str] = ()) -> None:
        self.folder = folder
        self._assets = assets
        self._options = list(options)
        self.port, self._etcd_port, self._peer_port = free_ports(3)
        self._etcd: subprocess.Popen[bytes] | None = None
        self._api_server: subprocess.Popen[bytes] | None = None
        folder.mkdir(parents=True, exist_ok=True)
        self.authority = trustme.CA()
        self._write_files()
        context = ssl.create_default_context(cafile=str(folder / "ca.crt"))
        self.http = httpx.Client(
            base_url=self.url,
            verify=context,
            headers={"authorization": f"Bearer {ADMIN_TOKEN}"},
            timeout=20,
        )

    @property
    def url(self) -> str:
        """The URL of the API server."""
        return f"https://127.0.0.1:{self.port}"

    @property
    def ca_pem(self) -> str:
        """The authority that signed the API server's certificate."""
        return (self.folder / "ca.crt").read_text()

    def __enter__(self) -> Self:
        try:
            self._start_etcd()
            self.start_api_server()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start_api_server(self) -> None:
        """Start the API server and wait until it is ready.

        Raises:
            ClusterFailed: it ended, or was not ready in time.
        """
        self._api_server = self._launch("kube-apiserver", self._api_server_options())
        self._wait("kube-apiserver", self._api_server, self.ready)

    def kill_api_server(self, number: signal.Signals = signal.SIGKILL) -> None:
        """End the API server as a crash does, and wait until it is gone."""
        assert self._api_server is not None
        self._api_server.send_signal(number)
        self._api_server.wait(30)

    def compact(self) -> None:
        """Forget every earlier version in etcd: a watch from one of them is told 410 by a new API server."""
        base = f"http://127.0.0.1:{self._etcd_port}/v3/kv"
        key = "AA=="
        revision = httpx.post(f"{base}/range", json={"key": key}).json()["header"]["revision"]
        httpx.post(f"{base}/compaction", json={"revision": revision, "physical": True}).raise_for_status()

    def stop(self) -> None:
        """End both processes."""
        self.http.close()
        for process in (self._api_server, self._etcd):
            if process is not None and process.poll() is None:
                process.kill()
                process.wait(10)

    def ready(self) -> bool:
        """Return whether the API server says that it is ready."""
        try:
            return self.http.get("/readyz").status_code == 200
        except httpx.HTTPError:
            return False

    def log(self, name: str = "kube-apiserver") -> str:
        """Return what one process has written."""
        return (self.folder / f"{name}.log").read_text(errors="replace")

    def kubeconfig(self, token: str = ADMIN_TOKEN, name: str = "admin", namespace: str = "default") -> Path:
        """Write a kubeconfig that shows `token`, and return its path."""
        path = self.folder / f"{name}.kubeconfig"
        cluster = {"server": self.url, "certificate-authority": str(self.folder / "ca.crt")}
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "here", "cluster": cluster}],
            "users": [{"name": name, "user": {"token": token}}],
            "contexts": [
                {"name": "here", "context": {"cluster": "here", "user": name, "namespace": namespace}}
            ],
            "current-context": "here",
        }
        path.write_text(yaml.safe_dump(document))
        return path

    def service_account_token(
        self, namespace: str, name: str, audience: str | None = None, pod: Mapping[str, Any] | None = None
    ) -> str:
        """Return a token of a service account, bound to `pod` (an object that exists) where one is given."""
        spec: dict[str, Any] = {"expirationSeconds": 3600}
        if audience is not None:
            spec["audiences"] = [audience]
        if pod is not None:
            spec["boundObjectRef"] = {
                "apiVersion": "v1",
                "kind": "Pod",
                "name": pod["metadata"]["name"],
                "uid": pod["metadata"]["uid"],
            }
        answer = self.http.post(
            f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token",
            json={"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec},
        )
        answer.raise_for_status()
        return str(answer.json()["status"]["token"])

    def namespace(self, name: str, labels: Mapping[str, str] | None = None) -> str:
        """Make a namespace (or label the one that is there), with the service account that pods run as.

        In a whole cluster a controller of Kubernetes' own makes that account.
        """
        metadata = {"name": name, "labels": dict(labels or {})}
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
        self.apply(
            f"/api/v1/namespaces/{name}", {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}
        )
        self.apply(f"/api/v1/namespaces/{name}/serviceaccounts/default", account)
        return name

    def apply(self, path: str, document: Mapping[str, Any]) -> dict[str, Any]:
        """Apply one object by server-side apply and return it as stored."""
        answer = self.http.patch(
            path,
            params={"fieldManager": "tests", "force": "true", "fieldValidation": "Strict"},
            headers={"content-type": "application/apply-patch+yaml"},
            content=json.dumps(document),
        )
        assert answer.status_code in (200, 201), answer.text
        stored: dict[str, Any] = answer.json()
        return stored

    def create(self, path: str, document: Mapping[str, Any]) -> dict[str, Any]:
        """POST one object and return it as stored."""
        answer = self.http.post(path, json=document)
        assert answer.status_code == 201, answer.text
        stored: dict[str, Any] = answer.json()
        return stored

    def get(self, path: str) -> dict[str, Any]:
        """GET one object or list."""
        answer = self.http.get(path)
        answer.raise_for_status()
        found: dict[str, Any] = answer.json()
        return found

    def kubectl(self, *words: str, stdin: str | None = None, check: bool = True) -> str:
        """Run kubectl as the administrator and return what it prints, errors too."""
        done = subprocess.run(
            ["kubectl", "--kubeconfig", str(self.kubeconfig()), *words],
            input=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            env={**os.environ, "HOME": str(self.folder)},
            timeout=60,
        )
        assert not check or done.returncode == 0, done.stdout
        return done.stdout

    def requests(self, user: str, since: float = 0.0) -> list[Request]:
        """Return what `user` has asked from `since` (Unix time) on, watches once."""
        return [
            one
            for one in self._audit()
            if one.user == user
            and one.at >= since
            and not (one.verb == "watch" and one.stage != "ResponseStarted")
        ]

    def _audit(self) -> Iterator[Request]:
        path = self.folder / "audit.log"
        for line in path.read_text().splitlines() if path.exists() else ():
            event = json.loads(line)
            yield Request(
                at=_unix(event["requestReceivedTimestamp"]),
                user=event["user"].get("username", ""),
                verb=event["verb"],
                path=event["requestURI"],
                status=event.get("responseStatus", {}).get("code", 0),
                stage=event["stage"],
            )

    def _write_files(self) -> None:
        server = self.authority.issue_cert("127.0.0.1", "localhost")
        self.authority.cert_pem.write_to_path(self.folder / "ca.crt")
        server.private_key_pem.write_to_path(self.folder / "server.key")
        for number, blob in enumerate(server.cert_chain_pems):
            blob.write_to_path(self.folder / "server.crt", append=number > 0)
        key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        (self.folder / "accounts.key").write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.TraditionalOpenSSL,
                serialization.NoEncryption(),
            )
        )
        (self.folder / "tokens.csv").write_text(f"{ADMIN_TOKEN},admin,admin,system:masters\n")
        (self.folder / "audit-policy.yaml").write_text(json.dumps(AUDIT_POLICY))

    def _api_server_options(self) -> list[str]:
        folder = self.folder
        return [
            f"--etcd-servers=http://127.0.0.1:{self._etcd_port}",
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",
            f"--secure-port={self.port}",
            f"--cert-dir={folder}",
            f"--tls-cert-file={folder}/server.crt",
            f"--tls-private-key-file={folder}/server.key",
            f"--token-auth-file={folder}/tokens.csv",
            "--authorization-mode=RBAC",
            "--endpoint-reconciler-type=none",
            "--service-cluster-ip-range=10.96.0.0/16",
            f"--service-account-issuer={ISSUER}",
            f"--service-account-signing-key-file={folder}/accounts.key",
            f"--service-account-key-file={folder}/accounts.key",
            f"--audit-policy-file={folder}/audit-policy.yaml",
            f"--audit-log-path={folder}/audit.log",
            "--shutdown-delay-duration=0s",
            *self._options,
        ]

    def _start_etcd(self) -> None:
        client, peer = (f"http://127.0.0.1:{port}" for port in (self._etcd_port, self._peer_port))
        self._etcd = self._launch(
            "etcd",
            [
                f"--data-dir={self.folder}/etcd",
                f"--listen-client-urls={client}",
                f"--advertise-client-urls={client}",
                f"--listen-peer-urls={peer}",
                f"--initial-advertise-peer-urls={peer}",
                f"--initial-cluster=default={peer}",
                # What is lost with the machine is of no use to a test.
                "--unsafe-no-fsync",
                "--log-level=warn",
            ],
        )
        self._wait("etcd", self._etcd, lambda: http_status(f"{client}/health") == 200)

    def _launch(self, name: str, options: Sequence[str]) -> subprocess.Popen[bytes]:
        with (self.folder / f"{name}.log").open("ab") as log:
            return subprocess.Popen(
                [str(self._assets / name), *options], stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    def _wait(self, name: str, process: subprocess.Popen[bytes], ready: Any) -> None:
        try:
            until(lambda: process.poll() is not None or ready(), READY_SECONDS, f"{name} is ready", 0.1)
        except TimeoutError as error:
            raise ClusterFailed(f"{error}\n{self.log(name)[-4000:]}") from error
        if process.poll() is not None:
            raise ClusterFailed(f"{name} ended with {process.returncode}\n{self.log(name)[-4000:]}")


def _unix(stamp: str) -> float:
    """Return the Unix time of an audit event (UTC, microseconds)."""
    whole, _, fraction = stamp.rstrip("Z").partition(".")
    moment = time.strptime(whole, "%Y-%m-%dT%H:%M:%S")
    return calendar.timegm(moment) + float(f"0.{fraction or 0}")
