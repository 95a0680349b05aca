"""`outrigger controller` as a real process, between an emulated API server and a control plane."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import kmock as mock
import pytest
import yaml

from control_plane.controller.election import NAME
from control_plane.controller.resources import ROOT
from control_plane.resources.plurals import PLURAL_OF
from tests.contract.control_plane.controller.plane import TOKEN, Plane, eventually
from tests.harness.processes import free_ports

LEASES = mock.resource("coordination.k8s.io/v1/leases")
IN_FORCE = {"Accepted": ("True", "Accepted"), "Programmed": ("True", "Programmed")}


@pytest.fixture
def api(kmock: mock.KubernetesEmulator) -> mock.KubernetesEmulator:
    """Return an API server that knows what the controller asks for."""
    for plural in PLURAL_OF.values():
        kmock.resources[f"outrigger.dev/v1alpha1/{plural}"] = mock.ResourceInfo(namespaced=False)
    kmock.resources["v1/secrets"] = mock.ResourceInfo(namespaced=True)
    kmock.resources["coordination.k8s.io/v1/leases"] = mock.ResourceInfo(namespaced=True)
    return kmock


@asynccontextmanager
async def controller(
    api: mock.KubernetesEmulator, server: str, folder: Path, health: int
) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run one replica; kill it if the test has not ended it."""
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": str(api.url).rstrip("/")}}],
        "users": [{"name": "u", "user": {"token": "kube-token"}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
    }
    kubeconfig = folder / "kubeconfig"
    kubeconfig.write_text(yaml.safe_dump(config))
    command = ("-m", "control_plane", "controller", "--health-port", str(health))
    environment = {
        **os.environ,
        "KUBECONFIG": str(kubeconfig),
        "OUTRIGGER_SERVER": server,
        "OUTRIGGER_TOKEN": TOKEN,
        "POD_NAME": "replica",
        "POD_NAMESPACE": "mesh",
    }
    async with running(folder / "log", command, environment) as process:
        yield process


@asynccontextmanager
async def running(
    file: Path, command: tuple[str, ...], environment: Mapping[str, str]
) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run a command of Python with its output in `file`; kill it if the test has not ended it."""
    with file.open("ab") as log:
        process = await asyncio.create_subprocess_exec(
            sys.executable, *command, stdout=log, stderr=log, env=environment
        )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
        _show(file)


def said(api: mock.KubernetesEmulator, plural: str, name: str) -> dict[str, tuple[str, str]]:
    """Return status and reason of a resource's conditions."""
    status: dict[str, Any] = api.objects[of(plural), None, name].raw.get("status") or {}
    return {item["type"]: (item["status"], item["reason"]) for item in status.get("conditions", [])}


def of(plural: str) -> Any:
    """Return a kind of ours as the emulator names it."""
    return mock.resource(f"{ROOT.removeprefix('/apis/')}/{plural}")


async def test_a_replica_mirrors_reports_and_lets_go(api: mock.KubernetesEmulator, tmp_path: Path) -> None:
    """From nothing: it leads, tells, writes both conditions, heals a broken watch, and a signal ends it."""
    api.objects[of("pins"), None, "there"] = {"metadata": {"name": "there"}, "spec": {"answer": "x"}}
    # The first two lists of Pins fail, as those of a server that is starting do.
    api[mock.action.LIST, of("pins")][:2] << 500
    plane, health = Plane(), free_ports(1)[0]
    await plane.server.start_server()
    server = str(plane.server.make_url("/"))
    async with controller(api, server, tmp_path, health) as process, aiohttp.ClientSession() as session:
        await eventually(lambda: plane.names == {"there"})
        await eventually(lambda: said(api, "pins", "there") == IN_FORCE)
        assert api.objects[LEASES, "mesh", NAME].raw["spec"]["holderIdentity"] == "replica"
        new = {"metadata": {"name": "new"}, "spec": {"answer": "y"}}
        await session.post(f"{str(api.url).rstrip('/')}{ROOT}/pins", json=new)
        await eventually(lambda: said(api, "pins", "new") == IN_FORCE)
        await session.delete(f"{str(api.url).rstrip('/')}{ROOT}/pins/there")
        await eventually(lambda: plane.names == {"new"})
        for path in ("readyz", "healthz", "metrics"):
            async with session.get(f"http://127.0.0.1:{health}/{path}") as answer:
                assert answer.status == 200, path
        process.send_signal(signal.SIGTERM)
        assert await asyncio.wait_for(process.wait(), 10) == 0
        assert not api.objects[LEASES, "mesh", NAME].raw["spec"]["holderIdentity"]
    await plane.server.close()
    writes = {(request.method, request.url.path) for request in api if request.method != "GET"}
    leases = {path for method, path in writes if "/leases" in path}
    assert {path for method, path in writes if path not in leases} == {
        f"{ROOT}/pins/{name}/status" for name in ("there", "new")
    } | {f"{ROOT}/pins", f"{ROOT}/pins/there"}
    told = (tmp_path / "log").read_text()
    assert TOKEN not in told
    assert "kube-token" not in told


async def test_the_real_control_plane_judges_each_by_itself(
    api: mock.KubernetesEmulator, tmp_path: Path
) -> None:
    """Wrong ones have their reason, heal in any order, and never stand in the way of the others."""
    port, push, health = free_ports(3)
    server = f"http://127.0.0.1:{port}"
    ports = ("--api-port", str(port), "--push-port", str(push), "--data-dir", str(tmp_path / "data"))
    environment = {**os.environ, "OUTRIGGER_ADMIN_TOKEN": TOKEN}
    command = ("-m", "control_plane", "control-plane", *ports)
    headers = {"Authorization": f"Bearer {TOKEN}"}

    def put(plural: str, name: str, spec: Mapping[str, Any]) -> None:
        api.objects[of(plural), None, name] = {"metadata": {"name": name}, "spec": spec}

    async with (
        running(tmp_path / "control-plane.log", command, environment),
        aiohttp.ClientSession(server, headers=headers) as session,
    ):
        await eventually(lambda: _answers(port))
        document = {"kind": "Tier", "metadata": {"name": "mine"}, "spec": {"limits": {}}}
        async with session.put("/api/v1/tiers/mine", json=document) as answer:
            assert answer.status == 201
        key = {"secretRef": {"name": "provider", "key": "key"}}
        put("backends", "openai", {"url": "https://a.example/v1", "credentials": key})
        put("models", "fast", {"versions": [{"name": "v", "backend": "openai"}]})
        put("models", "lost", {"versions": [{"name": "v", "backend": "missing"}]})
        put("tiers", "mine", {"limits": {"concurrency": 3}})
        secret = {"metadata": {"name": "provider", "namespace": "mesh"}, "data": {"key": "b2xk"}}
        api.objects[mock.resource("v1/secrets"), "mesh", "provider"] = secret
        async with controller(api, server, tmp_path, health):
            await eventually(lambda: said(api, "models", "fast") == IN_FORCE)
            await eventually(lambda: said(api, "backends", "openai") == IN_FORCE)
            await eventually(lambda: "Accepted" in said(api, "tiers", "mine"))
            assert said(api, "models", "lost")["Accepted"] == ("False", "UnknownReference")
            assert said(api, "tiers", "mine")["Accepted"] == ("False", "Conflict")
            url = f"{str(api.url).rstrip('/')}{ROOT}/backends"
            missing = {"metadata": {"name": "missing"}, "spec": {"url": "https://b.example/v1"}}
            async with session.post(url, json=missing) as answer:
                assert answer.status == 200
            await eventually(lambda: said(api, "models", "lost") == IN_FORCE)
            async with session.get("/api/v1/tiers/mine") as answer:
                assert (await answer.json())["spec"] == {"limits": {}}
            async with session.get("/api/v1/secrets") as answer:
                assert "provider" in await answer.text()
    for log in ("log", "control-plane.log"):
        told = (tmp_path / log).read_text()
        assert "b2xk" not in told
        assert TOKEN not in told


def _show(file: Path) -> None:
    print(file.read_text())


def _answers(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), 0.2):
            return True
    except OSError:
        return False
