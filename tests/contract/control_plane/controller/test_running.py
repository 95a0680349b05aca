"""`outrigger controller` as a real process, between an emulated API server and a control plane."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import kmock as mock
import pytest
import yaml

from control_plane.cli.launcher.preflight import free_port
from control_plane.controller.election import NAME
from control_plane.controller.resources import ROOT
from control_plane.resources.plurals import PLURAL_OF
from tests.contract.control_plane.controller.plane import TOKEN, Plane, eventually

LEASES = mock.resource("coordination.k8s.io/v1/leases")
PINS = mock.resource(f"{ROOT.removeprefix('/apis/')}/pins")


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
    api: mock.KubernetesEmulator, plane: Plane, folder: Path, health: int
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
        "OUTRIGGER_SERVER": str(plane.server.make_url("/")),
        "OUTRIGGER_TOKEN": TOKEN,
        "POD_NAME": "replica",
        "POD_NAMESPACE": "mesh",
    }
    with (folder / "log").open("ab") as log:
        process = await asyncio.create_subprocess_exec(
            sys.executable, *command, stdout=log, stderr=log, env=environment
        )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
        print((folder / "log").read_text())


def conditions(api: mock.KubernetesEmulator, name: str) -> dict[str, str]:
    """Return the conditions of a Pin."""
    status: dict[str, Any] = api.objects[PINS, None, name].raw.get("status") or {}
    return {item["type"]: item["status"] for item in status.get("conditions", [])}


async def test_a_replica_mirrors_reports_and_lets_go(api: mock.KubernetesEmulator, tmp_path: Path) -> None:
    """From nothing: it leads, tells, writes both conditions, heals a broken watch, and a signal ends it."""
    api.objects[PINS, None, "there"] = {"metadata": {"name": "there"}, "spec": {"answer": "x"}}
    # The first two lists of Pins fail, as those of a server that is starting do.
    api[mock.action.LIST, PINS][:2] << 500
    plane, health = Plane(), free_port("127.0.0.1")
    await plane.server.start_server()
    async with controller(api, plane, tmp_path, health) as process, aiohttp.ClientSession() as session:
        await eventually(lambda: plane.names == {"there"})
        await eventually(lambda: conditions(api, "there") == {"Accepted": "True", "Programmed": "True"})
        assert api.objects[LEASES, "mesh", NAME].raw["spec"]["holderIdentity"] == "replica"
        new = {"metadata": {"name": "new"}, "spec": {"answer": "y"}}
        await session.post(f"{str(api.url).rstrip('/')}{ROOT}/pins", json=new)
        await eventually(lambda: conditions(api, "new") == {"Accepted": "True", "Programmed": "True"})
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
