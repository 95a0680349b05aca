"""Several real processes as one mesh."""

import asyncio
import os
import sys
import time
from pathlib import Path

import pytest

from control_plane.cli.failures import CommandFailed
from control_plane.cli.launcher.mesh import Mesh, control_plane_probe, envoy_probe
from control_plane.cli.launcher.plan import ChildSpec, Role
from tests.harness.processes import free_ports

HOST = "127.0.0.1"
# Writes its name when it is told to stop.
POLITE = """
import signal, sys, time
def end(*_):
    with open(sys.argv[1], "a") as log: log.write(sys.argv[2] + "\\n")
    sys.exit(0)
signal.signal(signal.SIGTERM, end)
sys.stderr.write("up\\n"); sys.stderr.flush()
time.sleep(60)
"""


def spec(role: Role, script: str, *arguments: str) -> ChildSpec:
    """Return a child of `role` that runs a Python script."""
    return ChildSpec(role.value, role, (sys.executable, "-c", script, *arguments), os.environ)


async def ready() -> str:
    """Find everything ready."""
    return ""


async def test_processes_are_stopped_in_order(tmp_path: Path) -> None:
    """Envoy before what it talks to, the control plane last."""
    log, lines = tmp_path / "log", list[str]()
    roles = [Role.PROVIDER, Role.CONTROL_PLANE, Role.AGENT, Role.PROCESSOR, Role.ENVOY]
    mesh = Mesh([spec(role, POLITE, str(log), role.value) for role in roles], lines.append)
    mesh.start()
    async with asyncio.timeout(20):
        while len(lines) < len(roles):  # noqa: ASYNC110 - a list of lines has no event
            await asyncio.sleep(0.01)
    await mesh.stop(None, asyncio.Event())
    order = log.read_text().split()
    assert (order[0], order[-2:]) == ("envoy", ["agent", "control-plane"])
    assert set(order[1:3]) == {"processor", "provider"}
    assert not any(child.pid for child in mesh.children)


async def test_hurrying_stops_what_would_take_its_time() -> None:
    """A second Ctrl-C is obeyed within a second or so."""
    stubborn = "import signal, sys, time; signal.signal(15, signal.SIG_IGN); print('up', file=sys.stderr, flush=True); time.sleep(60)"  # noqa: E501
    lines: list[str] = []
    mesh = Mesh([spec(role, stubborn) for role in (Role.CONTROL_PLANE, Role.AGENT, Role.ENVOY)], lines.append)
    mesh.start()
    async with asyncio.timeout(20):
        while len(lines) < 3:  # noqa: ASYNC110 - a list of lines has no event
            await asyncio.sleep(0.01)
    hurry = asyncio.Event()
    hurry.set()
    began = time.monotonic()
    await mesh.stop(f"http://{HOST}:{free_ports(1)[0]}", hurry)
    assert time.monotonic() - began < 4
    assert not any(child.pid for child in mesh.children)


async def test_a_process_that_keeps_ending_is_given_up_before_readiness() -> None:
    """The sentence holds its last words."""
    mesh = Mesh([spec(Role.AGENT, "import sys; sys.exit('no socket')")], lambda line: None)
    mesh.start()

    async def never() -> str:
        return "a miracle"

    with pytest.raises(CommandFailed) as failure:
        await mesh.wait_ready(never, 30, lambda text: None)
    await mesh.stop(None, asyncio.Event())
    assert str(failure.value) == "the agent keeps ending: no socket"


async def test_waiting_has_a_limit_and_tells_what_is_missing() -> None:
    """Both while it waits and when it gives up."""
    told: list[str] = []

    async def never() -> str:
        return "a miracle"

    with pytest.raises(CommandFailed, match="not ready after 0 s: a miracle"):
        await Mesh([], lambda line: None).wait_ready(never, 0.2, told.append)
    assert told[0] == "not ready yet: a miracle"
    await Mesh([], lambda line: None).wait_ready(ready, 5, told.append)


@pytest.mark.parametrize(
    ("status", "body", "missing"),
    [
        (200, b'{"status": "ready"}', ("", "")),
        (
            503,
            b'{"reason": "0 of 1 sidecars connected"}',
            ("0 of 1 sidecars connected", "Envoy has no configuration"),
        ),
        (503, b"junk", ("the control plane does not answer", "Envoy has no configuration")),
    ],
)
async def test_probes_read_what_servers_say(status: int, body: bytes, missing: tuple[str, str]) -> None:
    """The control plane gives its reason; Envoy a status only."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        head = f"HTTP/1.1 {status} X\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n"
        writer.write(head.encode() + body)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, HOST, 0)
    url = f"http://{HOST}:{server.sockets[0].getsockname()[1]}"
    async with server:
        assert await control_plane_probe(url)() == missing[0]
        assert await envoy_probe(url)() == missing[1]


async def test_probes_of_servers_that_are_not_there_say_so() -> None:
    """A refused connection is an answer too."""
    url = f"http://{HOST}:{free_ports(1)[0]}"
    assert await control_plane_probe(url)() == "the control plane does not answer"
    assert await envoy_probe(url)() == "Envoy does not answer"
