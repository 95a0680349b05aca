"""One mesh that harmless tests share, meshes of their own for tests that break things, and the providers."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.documents import PROVIDER_KEY, SHARED_MESH
from tests.e2e.governed import ADMIN
from tests.harness.mesh import OUTRIGGER, Mesh, http_status
from tests.harness.processes import free_ports, until
from tests.harness.rude import RudeProvider

LOG_TAIL_CHARACTERS = 6000


@pytest.fixture(scope="package")
def rude() -> Iterator[RudeProvider]:
    """The provider that answers byte for byte what a test tells it to."""
    with RudeProvider() as provider:
        yield provider


@pytest.fixture(scope="package")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """The port of a simulated provider (`outrigger provider`), quick and without faults."""
    port = free_ports(1)[0]
    log_path = tmp_path_factory.mktemp("provider") / "provider.log"
    with log_path.open("wb") as log:
        process = subprocess.Popen(
            [str(OUTRIGGER), "provider", "--port", str(port)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
    try:
        until(
            lambda: process.poll() is not None or http_status(f"http://127.0.0.1:{port}/v1/models") == 200,
            20,
            "the simulated provider listens",
        )
        assert process.poll() is None, log_path.read_text()
        yield port
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(10)


@pytest.fixture(scope="package")
def mesh(rude: RudeProvider, simulated: int, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mesh]:
    """The shared mesh (documents: `tests/e2e/documents.py`). Tests must leave it as they found it.

    A file that needs more of it borrows it (`tests.e2e.governed.lent`).
    """
    dead = free_ports(1)[0]
    documents = SHARED_MESH.format(rude=rude.port, simulated=simulated, dead=dead)
    environment = {"E2E_PROVIDER_KEY": PROVIDER_KEY}
    folder = tmp_path_factory.mktemp("shared")
    with Mesh(folder, documents, ("--admin-token", ADMIN), environment) as started:
        yield started


@pytest.fixture
def start_mesh(tmp_path: Path) -> Iterator[Callable[..., Mesh]]:
    """Start a mesh of the test's own: `start_mesh(documents, options=…, environment=…)`."""
    meshes: list[Mesh] = []

    def start(documents: str | None, **settings: Any) -> Mesh:
        started = Mesh(tmp_path / f"mesh{len(meshes)}", documents, **settings)
        meshes.append(started)
        return started.start()

    yield start
    for one in meshes:
        if os.environ.get("E2E_SHOW_LOGS"):
            print(one.log())
        one.stop()


_NUMBERS = itertools.count(1)


@pytest.fixture
def script() -> str:
    """A name for a script of the rude provider that no other test uses."""
    return f"script-{next(_NUMBERS)}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    """Show the logs of the meshes that a failed test used."""
    report: Any = yield
    if report.failed:
        for name, value in getattr(item, "funcargs", {}).items():
            if isinstance(value, Mesh):
                report.sections.append((f"log of {name}", value.log()[-LOG_TAIL_CHARACTERS:]))
        if "start_mesh" in getattr(item, "funcargs", {}):
            for path in sorted(item.funcargs["tmp_path"].glob("mesh*/mesh.log")):  # type: ignore[attr-defined]
                text = path.read_text(errors="replace")[-LOG_TAIL_CHARACTERS:]
                report.sections.append((f"log {path.parent.name}", text))
    return report  # type: ignore[no-any-return]
