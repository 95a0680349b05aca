"""The agent as a process: its command line, its files, its end."""

from __future__ import annotations

import asyncio
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest

from ext_proc.contract import push_pb2, push_pb2_grpc
from ext_proc.contract.snapshot import Snapshot, encode
from tests.contract.ext_proc.agent.sidecar import ROOT, until


@pytest.fixture
def folder() -> Iterator[Path]:
    """Make a folder with a path short enough for sockets."""
    path = Path(tempfile.mkdtemp(prefix="or-"))
    yield path
    shutil.rmtree(path)


async def start(folder: Path, *options: str) -> asyncio.subprocess.Process:
    """Start the agent with its folders below `folder`."""
    arguments = ["--run-dir", str(folder / "r"), "--data-dir", str(folder / "d"), *options]
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "ext_proc", "agent", "--control-plane", f"unix:{folder}/push.sock"),
        *("--metrics-address", "127.0.0.1:0", *arguments),
        cwd=ROOT,
        stderr=asyncio.subprocess.PIPE,
    )


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_snapshot_on_disk_is_served_at_once(folder: Path, number: signal.Signals) -> None:
    """With neither Envoy nor control plane there, processors get the snapshot kept; a signal ends it."""
    (folder / "d").mkdir()
    (folder / "d" / "snapshot.json").write_bytes(encode(Snapshot("kept")))
    process = await start(folder)
    async with grpc.aio.insecure_channel(f"unix:{folder}/r/agent.sock") as channel:
        await until((folder / "r" / "agent.sock").exists, "the agent listens")
        stream = push_pb2_grpc.PolicyPushStub(channel).Connect(wait_for_ready=True)  # type: ignore[no-untyped-call]
        await stream.write(push_pb2.Report(hello=push_pb2.Hello(subscriber_id="p")))
        assert (await asyncio.wait_for(stream.read(), 10)).version == "kept"
        stream.cancel()
    process.send_signal(number)
    assert await asyncio.wait_for(process.wait(), 10) == 0


async def test_unusable_settings_are_one_sentence(folder: Path) -> None:
    """A folder that cannot be made ends the process with status 1 and one line that names it."""
    (folder / "r").write_text("a file")
    process = await start(folder)
    _, told = await asyncio.wait_for(process.communicate(), 20)
    assert process.returncode == 1
    lines = told.decode().strip().splitlines()
    assert len(lines) == 1
    assert "agent.sock" in lines[0]
