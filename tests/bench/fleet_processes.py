"""The two ends of the fleet bench, each in processes of its own: a push server, and simulated sidecars.

    python -m tests.bench.fleet_processes server ADDRESS
    python -m tests.bench.fleet_processes sidecars ADDRESS FIRST COUNT

The server is the real one (fleet, compiler, gRPC); it does what lines on stdin say and answers by a line of
JSON each. A simulated sidecar is the agent's own push client that acknowledges at once, unread.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import random
import sys
import time
from collections.abc import Hashable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import structlog
import uvloop
from structlog.typing import FilteringBoundLogger

from control_plane.push.fleet import Fleet
from control_plane.push.policy import Policy
from control_plane.push.server import PushServer
from control_plane.resources.compile import compile_snapshot
from control_plane.resources.documents import Documents, load_documents
from ext_proc.contract import push_pb2
from ext_proc.contract.policies import rank
from ext_proc.contract.snapshot import Snapshot
from ext_proc.push_client import PlainDial, PushClient

WORKLOADS = 20
BACKENDS = 10
MODELS = 100
PAUSE_MAX_S = 5.0
LINE_BYTES = 1 << 20
GC_THRESHOLDS = (50_000, 20, 50)


def policy_documents(folder: Path, revision: int) -> Documents:
    """Return documents of a middling company, changed a little by `revision`."""
    lines = []
    for index in range(BACKENDS):
        lines.append(
            f"---\nkind: Backend\nmetadata: {{name: b{index}}}\nspec: {{url: 'https://p{index}.example/v1'}}\n"
        )
    for index in range(MODELS):
        upstream = f"up-{index}-{revision if index == 0 else 0}"
        version = f"{{name: v, backend: b{index % BACKENDS}, upstreamModel: {upstream}}}"
        lines.append(f"---\nkind: Model\nmetadata: {{name: m{index}}}\nspec: {{versions: [{version}]}}\n")
    file = folder / "bench.yaml"
    file.write_text("".join(lines))
    return load_documents([file], None)


class Answers:
    """Counts acknowledgements."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self._wanted = 0
        self._there = asyncio.Event()

    def expect(self, number: int) -> None:
        """Begin anew."""
        self.seconds, self._wanted = [], number
        self._there.clear()

    def take(self, seconds: float) -> None:
        """Count one."""
        self.seconds.append(seconds)
        if len(self.seconds) >= self._wanted:
            self._there.set()

    async def all(self, limit_s: float) -> list[float]:
        """Wait for all; return what came within `limit_s`."""
        with suppress(TimeoutError):  # the answer says how many are missing
            await asyncio.wait_for(self._there.wait(), limit_s)
        return self.seconds


async def serve(address: str, folder: Path) -> None:
    """Serve, and obey: `await N` (until N have acknowledged the first policy), `publish N`."""
    answers = Answers()
    log = quiet_log()
    fleet = Fleet(
        clock=time.monotonic,
        now=lambda: datetime.now(UTC),
        later=asyncio.get_running_loop().call_later,
        on_halt=lambda revision, reason: print(json.dumps({"halted": reason}), flush=True),
        mark=os.urandom(8),
        log=log,
        on_acknowledged=answers.take,
    )

    def publish(revision: int, documents: Documents) -> None:
        def compile_for(workload: str) -> Snapshot:
            return compile_snapshot(documents, workload, revision)

        def alike(workload: str) -> Hashable:
            return tuple(rank(spec.target.workloads, workload) for spec in documents.policies.values())

        fleet.publish(Policy(revision, compile_for, alike=alike))

    publish(1, policy_documents(folder, 1))
    server = PushServer(fleet, address, log)
    await server.start()
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)
    began = time.perf_counter()
    print(json.dumps({"port": server.port}), flush=True)
    lines = asyncio.StreamReader(limit=LINE_BYTES)
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(lines), sys.stdin.buffer
    )
    revision = 1
    while line := (await lines.readline()).decode().split():
        command, number = line[0], int(line[1])
        found: dict[str, Any]
        if command == "await":
            answers.expect(number - len(answers.seconds))
            await answers.all(60)
            found = {"seconds": time.perf_counter() - began}
        else:
            revision += 1
            answers.expect(number)
            documents = policy_documents(folder, revision)
            used = time.process_time()
            publish(revision, documents)
            found = {"seconds": sorted(await answers.all(10)), "cpu": time.process_time() - used}
        found["in_force"] = sum(view.in_force for view in fleet.sidecars())
        print(json.dumps(found), flush=True)
    await server.stop()


class SimulatedSidecar(PushClient):
    """Acknowledges what comes, and reads none of it."""

    def _take(self, message: push_pb2.Snapshot) -> None:
        self.acknowledge(message.version, message.version)


async def follow(address: str, first: int, count: int) -> None:
    """Run `count` sidecars, each with a connection of its own."""
    log = quiet_log()

    async def sidecar(number: int) -> None:
        client = SimulatedSidecar(
            PlainDial(address),
            lambda: push_pb2.Hello(subscriber_id=f"s{number}", workload=f"w{number % WORKLOADS}"),
            lambda pushed: None,
            jitter=random.random,
            log=log,
            pause_max_s=PAUSE_MAX_S,
        )
        await client.run()

    await asyncio.gather(*(sidecar(first + index) for index in range(count)))


def quiet_log() -> FilteringBoundLogger:
    """Return a log that tells errors only."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(40))
    log: FilteringBoundLogger = structlog.get_logger()
    return log


def main(arguments: list[str]) -> None:
    """Be one of the two."""
    role, address = arguments[:2]
    if role == "server":
        uvloop.run(serve(address, Path(arguments[2])))
    else:
        uvloop.run(follow(address, int(arguments[2]), int(arguments[3])))


if __name__ == "__main__":
    main(sys.argv[1:])
