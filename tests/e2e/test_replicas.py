"""Two replicas of the control plane on one PostgreSQL, each with a sidecar of its own."""

from __future__ import annotations

import asyncio
import base64
import os
import random
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import structlog

from ext_proc.contract import push_pb2
from ext_proc.push_client import PlainDial, PushClient, Pushed
from tests.harness.mesh import OUTRIGGER, http_status
from tests.harness.plain import PLAIN
from tests.harness.postgres import PostgresMissingError, postgres_server
from tests.harness.processes import free_ports, until

ADMIN = "admin-token-of-the-tests"
POLICY = """\
kind: Backend
metadata: {name: b}
spec: {url: 'http://h/v1'}
---
kind: Model
metadata: {name: m}
spec: {versions: [{name: old, backend: b}, {name: new, backend: b, weight: 0}]}
---
kind: Release
metadata: {name: r}
spec: {model: m, from: old, to: new, steps: [50], bake: 1h, gates: {minRequests: 5000}}
"""


class Sidecar:
    """One that follows the policy of a replica; while it `lags` it takes nothing new over."""

    def __init__(self, name: str, address: str) -> None:
        self.lags = False
        self._waiting = ""
        self.client = PushClient(
            PlainDial(address),
            lambda: push_pb2.Hello(subscriber_id=name, workload="w"),
            self._take,
            jitter=random.random,
            log=structlog.get_logger("test"),
            pause_max_s=0.5,
        )

    def _take(self, pushed: Pushed) -> None:
        self._waiting = pushed.snapshot.version
        self.catch_up(lags=self.lags)

    def catch_up(self, *, lags: bool = False) -> None:
        """Take over what was pushed last, and from now on what comes, unless it `lags` on."""
        self.lags = lags
        if self._waiting and not lags:
            self.client.acknowledge(self._waiting, self._waiting)

    def report(self, calls: int) -> None:
        """Tell what was counted since the beginning."""
        statistics = push_pb2.Statistics(epoch="e")
        statistics.versions.add(model="m", version="old", calls=2 * calls)
        for version in ("old", "new"):
            statistics.releases.add(release="r", model="m", version=version, calls=calls)
        self.client.tell(push_pb2.Report(statistics=statistics))


class Replica:
    """One process."""

    def __init__(self, folder: Path, name: str, port: int, database: str, key: str) -> None:
        self.address = f"unix:{folder / name}.sock"
        self.url = f"http://127.0.0.1:{port}"
        self.api = httpx.Client(
            base_url=f"{self.url}/api/v1", headers={"authorization": f"Bearer {ADMIN}"}, verify=PLAIN
        )
        command = [str(OUTRIGGER), "control-plane", "--api-port", str(port), "--database", database]
        command += ["--push-address", self.address, "--data-dir", str(folder / name)]
        environment = {**os.environ, "OUTRIGGER_SECRET_KEY": key, "POD_NAME": name}
        with (folder / f"{name}.log").open("ab") as log:
            self._process = subprocess.Popen(
                [*command, "--admin-token", ADMIN], stdout=log, stderr=log, env=environment
            )

    def ready(self) -> None:
        """Wait until it serves."""
        until(lambda: http_status(f"{self.url}/healthz") == 200, 60, "it serves")

    def get(self, path: str) -> Any:
        """Return what the API answers."""
        return self.api.get(path).raise_for_status().json()

    def end(self) -> None:
        """End it."""
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(15)


@pytest.fixture
def replicas(tmp_path: Path) -> Iterator[list[Replica]]:
    """Two replicas, and a policy with a Release."""
    key = base64.urlsafe_b64encode(os.urandom(32)).decode()
    try:
        with postgres_server(install=bool(os.environ.get("CI"))) as postgres:
            database = postgres.new_database()
            places = zip(("cp-0", "cp-1"), free_ports(2), strict=True)
            found = [Replica(tmp_path, name, port, database, key) for name, port in places]
            try:
                for replica in found:
                    replica.ready()
                headers = {"content-type": "application/yaml"}
                found[0].api.post("/apply", content=POLICY, headers=headers).raise_for_status()
                yield found
            finally:
                for replica in found:
                    replica.end()
    except PostgresMissingError as missing:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(missing))


async def when(probe: Callable[[], Any], seconds: float, what: str) -> float:
    """Wait until `probe` says so, with the sidecars running; return how long that took."""
    began = time.monotonic()
    while not await asyncio.to_thread(probe):  # several processes have no event in common
        assert time.monotonic() - began < seconds, what
        await asyncio.sleep(0.05)
    return time.monotonic() - began


def status(replica: Replica) -> dict[str, Any]:
    """Return how far the Release is, as a replica says."""
    found: dict[str, Any] = replica.get("/releases/r")["status"]
    return found


def shown(replica: Replica) -> dict[str, tuple[str, bool]]:
    """Return where each sidecar is connected, and whether it serves what is in force, as a replica says."""
    return {item["id"]: (item["replica"], item["inForce"]) for item in replica.get("/sidecars")["items"]}


async def test_replicas_know_wait_and_count_for_each_other(replicas: list[Replica]) -> None:
    """Sidecars of all are shown and waited for, what they count is evidence, a login holds everywhere."""
    one, other = replicas
    near, far = Sidecar("near", one.address), Sidecar("far", other.address)
    following = [asyncio.create_task(sidecar.client.run()) for sidecar in (near, far)]
    everyone = {"near": ("cp-0", True), "far": ("cp-1", True)}
    try:
        for replica in replicas:
            await when(lambda asked=replica: shown(asked) == everyone, 10, "both are shown")  # type: ignore[misc]
        for calls in (0, 0, 40):
            near.report(calls)
            far.report(calls)
            await asyncio.sleep(1.5)
        for replica in replicas:
            await when(
                lambda asked=replica: status(asked)["analysis"]["new"]["requests"] == 80,  # type: ignore[misc]
                5,
                "both count",
            )
        await when(lambda: one.get("/overview")["sums"]["calls"] == 160, 15, "both are in the curves")
        far.lags = True
        one.api.post("/releases/r/promote").raise_for_status()
        await when(lambda: shown(one) == {**everyone, "far": ("cp-1", False)}, 5, "it lags")
        await asyncio.sleep(2.5)
        assert status(one)["phase"] == status(other)["phase"] == "promoting"
        far.catch_up()
        took = await when(lambda: status(one)["phase"] == "done", 5, "all obey")
        print(f"done {took:.1f} s after the last sidecar obeyed")
        await asyncio.to_thread(log_in_and_out, one, other)
    finally:
        for task in following:
            task.cancel()
        await asyncio.gather(*following, return_exceptions=True)


def log_in_and_out(one: Replica, other: Replica) -> None:
    """Log in at one replica: it holds at the other, and ends on both at either."""
    with httpx.Client(verify=PLAIN, headers={"accept": "text/html"}) as browser:
        entered = browser.post(f"{one.url}/login", data={"token": ADMIN, "next": "/"})
        assert entered.status_code == 303
        pages = [browser.get(f"{replica.url}/") for replica in (one, other)]
        assert [page.status_code for page in pages] == [200, 200]
        (csrf,) = {page.text.partition('name="csrf" value="')[2].partition('"')[0] for page in pages}
        assert csrf
        kept = dict(browser.cookies)
        left = browser.post(f"{other.url}/logout", data={"csrf": csrf})
        assert left.status_code == 303
    with httpx.Client(verify=PLAIN, headers={"accept": "text/html"}, cookies=kept) as browser:
        assert browser.get(f"{other.url}/").status_code == 401
        until(lambda: browser.get(f"{one.url}/").status_code == 401, 5, "it has ended everywhere")
