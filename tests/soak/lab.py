"""Everything that is soaked: the provider, Redis, PostgreSQL, the control plane and one sidecar."""

from __future__ import annotations

import json
import os
import shutil
import signal
import ssl
import subprocess
import sys
import urllib.request
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Final, Self

import trustme

from tests.harness.mesh import OUTRIGGER, Mesh, http_status
from tests.harness.postgres import postgres_server
from tests.harness.processes import Child, free_ports, until
from tests.harness.redis import find_server
from tests.soak.documents import documents
from tests.soak.kept import Kept
from tests.soak.stepped_clock import SteppedClock

START_S: Final = 40
DISK: Final = "48m"
ADMIN: Final = "soak-admin-token-2f9d61"
PROVIDER_KEY: Final = "sk-soak-provider-key-7c1e55a0"


class Sidecar(Mesh):
    """One `outrigger sidecar`: agent, processors and Envoy, joined to the control plane over TLS."""

    def __init__(self, folder: Path, lab: Lab, workers: int, environment: dict[str, str]) -> None:
        super().__init__(folder, None, environment=environment)
        self._lab = lab
        self._workers = workers
        self.data_dir = lab.disk / "sidecar"
        self.api_port = lab.api_port

    def command(self) -> list[str]:
        """Return the command line of the half that it is."""
        return [
            str(OUTRIGGER), "sidecar",
            "--control-plane", f"localhost:{self._lab.push_port}",
            "--control-plane-ca", str(self._lab.folder / "ca.pem"),
            "--token-file", str(self._lab.folder / "joining"),
            "--sidecar-id", "soaked",
            "--proxy-port", str(self.proxy_port),
            "--metrics-port", str(self.metrics_port),
            "--envoy-admin-port", str(self.admin_port),
            "--data-dir", str(self.data_dir),
            "--workers", str(self._workers),
        ]  # fmt: skip


class Lab:
    """All of it, started together. A context manager that leaves no process behind.

    Args:
        folder: for logs, certificates and the provider's diary.
        workers: how many processors the sidecar has.
    """

    def __init__(self, folder: Path, workers: int = 2) -> None:
        self.folder = folder
        self.disk = folder / "disk"
        self.provider_port, self.redis_port, self.api_port, self.push_port = free_ports(4)
        self.diary = folder / "provider.jsonl"
        self.clock = SteppedClock(folder)
        self.authority = trustme.CA()
        self._workers = workers
        self._owned = ExitStack()
        self._mounted = False

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._owned.close()

    def _start(self) -> None:
        self.disk.mkdir()
        self.diary.touch()
        self._mount()
        self.authority.cert_pem.write_to_path(self.folder / "ca.pem")
        self.renew_certificates()
        (self.folder / "provider-key").write_text(PROVIDER_KEY)
        self.postgres = self._owned.enter_context(postgres_server(install=True))
        self.redis = self._own(self._redis())
        self.provider = self._own(self._provider())
        for started in (self.redis, self.provider):
            started.start()
        until(self.redis_answers, START_S, "Redis answers")
        databases = {name: self.postgres.new_database() for name in ("policy", "answers")}
        self.control_plane = self._own(self._control_plane(databases["policy"]))
        self.control_plane.start()
        until(lambda: self.api_status("healthz") == 200, START_S, "the API answers")
        url = f"https://127.0.0.1:{self.provider_port}"
        self.api("POST", "apply", documents(url, str(self.folder / "provider-key")), "application/yaml")
        joining = self.api("POST", "tokens", {"name": "soaked", "role": "sidecar"})["token"]
        (self.folder / "joining").write_text(joining)
        self.consumer_key = str(self.api("POST", "consumers/team/keys", {})["key"])
        environment = {
            **self.clock.environment,
            "OUTRIGGER_REDIS": f"redis://127.0.0.1:{self.redis_port}/0",
            "OUTRIGGER_CACHE_DATABASE": databases["answers"],
            "OUTRIGGER_CA_FILE": str(self.folder / "ca.pem"),
        }
        self.sidecar = Sidecar(self.folder / "mesh", self, self._workers, environment)
        self._owned.callback(self.sidecar.stop)
        self.sidecar.start()

    def _mount(self) -> None:
        """Put the data folders on a disk of their own, which can be filled, where we may."""
        command = ["mount", "-t", "tmpfs", "-o", f"size={DISK}", "soak", str(self.disk)]
        if (
            shutil.which("mount")
            and subprocess.run(command, check=False, capture_output=True).returncode == 0
        ):
            self._mounted = True
            self._owned.callback(
                subprocess.run, ["umount", "--lazy", str(self.disk)], check=False, capture_output=True
            )

    @property
    def can_fill(self) -> bool:
        """Whether the data folders' disk may be filled."""
        return self._mounted

    def _own(self, process: Kept) -> Kept:
        self._owned.callback(process.end)
        return process

    def _redis(self) -> Kept:
        command = [find_server(), "--port", str(self.redis_port), "--bind", "127.0.0.1", "--save", ""]
        command += ["--dir", str(self.folder), "--appendonly", "no", "--loglevel", "warning"]
        return Kept("redis", command, self.folder / "redis.log")

    def _provider(self) -> Kept:
        files = [str(self.folder / name) for name in ("provider.pem", "provider.key")]
        command = [sys.executable, "-m", "tests.soak.provider", str(self.provider_port), str(self.diary)]
        return Kept("provider", [*command, *files], self.folder / "provider.log")

    def _control_plane(self, database: str) -> Kept:
        command = [str(OUTRIGGER), "control-plane", "--api-port", str(self.api_port)]
        command += ["--push-port", str(self.push_port), "--data-dir", str(self.disk / "control-plane")]
        command += ["--push-cert", str(self.folder / "push.pem"), "--push-key", str(self.folder / "push.key")]
        command += ["--min-ready-sidecars", "1", "--log-level", "warning"]
        environment = {
            **self.clock.environment,
            "OUTRIGGER_DATABASE": database,
            "OUTRIGGER_ADMIN_TOKEN": ADMIN,
        }
        return Kept("control-plane", command, self.folder / "control-plane.log", environment)

    def renew_certificates(self) -> None:
        """Replace the certificates of the provider and of the push stream by new ones."""
        for name, host in (("provider", "127.0.0.1"), ("push", "localhost")):
            made = self.authority.issue_cert(host)
            made.private_key_pem.write_to_path(self.folder / f"{name}.key.new")
            made.cert_chain_pems[0].write_to_path(self.folder / f"{name}.pem.new")
            for ending in ("key", "pem"):
                (self.folder / f"{name}.{ending}.new").replace(self.folder / f"{name}.{ending}")

    def api_status(self, path: str) -> int:
        """GET a path of the control plane and return the status; 0: nobody answers."""
        return http_status(f"http://127.0.0.1:{self.api_port}/{path}")

    def api(
        self, method: str, path: str, document: object = None, media_type: str = "application/json"
    ) -> dict[str, Any]:
        """Call the API as an administrator.

        Raises:
            OSError: it refused, or does not answer.
        """
        body = document.encode() if isinstance(document, str) else json.dumps(document).encode()
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.api_port}/api/v1/{path}",
            data=None if document is None else body,
            method=method,
            headers={"authorization": f"Bearer {ADMIN}", "content-type": media_type},
        )
        with urllib.request.urlopen(request, timeout=10) as answer:
            return dict(json.loads(answer.read() or b"{}"))

    def provider_mode(self, **mode: float) -> None:
        """Have the provider be like that from now on.

        Raises:
            OSError: it does not answer.
        """
        url = f"https://127.0.0.1:{self.provider_port}/_soak/mode"
        request = urllib.request.Request(url, json.dumps(mode).encode(), method="POST")
        context = ssl.create_default_context(cafile=str(self.folder / "ca.pem"))
        with urllib.request.urlopen(request, timeout=5, context=context):
            pass

    def provider_answers(self) -> bool:
        """Return whether the provider answers now; it is in good order then."""
        try:
            self.provider_mode()
        except OSError:
            return False
        return True

    def redis_answers(self) -> bool:
        """Return whether Redis answers now."""
        return bool(self.redis_command("PING"))

    def redis_command(self, *words: str) -> Any:
        """Send one command; return what came, None for no answer."""
        from redis import Redis, RedisError  # noqa: PLC0415

        with suppress(RedisError, OSError), Redis(port=self.redis_port, socket_timeout=2) as client:
            return client.execute_command(*words)
        return None

    def processes(self) -> list[Child]:
        """Return every process of the mesh: the sidecar's, and the control plane's."""
        found = self.sidecar.children()
        if pid := self.control_plane.pid:
            found.append(Child(pid, "control-plane", " ".join(self.control_plane.command)))
        return found

    def fill_disk(self) -> None:
        """Fill the data folders' disk to the last byte."""
        if not self._mounted:
            return
        with (self.disk / "full").open("wb", buffering=0) as file, suppress(OSError):
            while True:
                file.write(b"\0" * 65536)
        with (self.disk / "full").open("ab", buffering=0) as file, suppress(OSError):
            while True:
                file.write(b"\0")

    def free_disk(self) -> None:
        """Make room again."""
        (self.disk / "full").unlink(missing_ok=True)


def signal_all(pids: list[int], number: signal.Signals) -> None:
    """Send a signal to each that is still there."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)
