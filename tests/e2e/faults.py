"""Faults done for real, and the load under which they are done."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import resource
import signal
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from tests.harness.mesh import Mesh
from tests.harness.processes import alive, eventually, until
from tests.harness.raw_http import Answer, Connection, connect, json_request

CHAT = "/v1/chat/completions"


def chat(text: str, model: str = "plain", **more: Any) -> dict[str, Any]:
    """Return a one-question chat."""
    return {"model": model, "messages": [{"role": "user", "content": text}], **more}


@contextlib.contextmanager
def nobody_restarts(mesh: Mesh) -> Iterator[None]:
    """Keep the launcher stopped, so that what is killed stays dead."""
    os.kill(mesh.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(mesh.pid, signal.SIGCONT)


def kill_for_good(mesh: Mesh, role: str) -> None:
    """Kill -9 every process of `role` and wait until it is gone."""
    pids = mesh.kill(role)
    until(lambda: not any(alive(pid) for pid in pids), 5, f"{role} is gone")


@dataclass(slots=True)
class Load:
    """What callers saw. `wrong` holds each answer that was not the right one for its question."""

    answers: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    slowest: float = 0.0

    @property
    def count(self) -> int:
        """How many calls were answered."""
        return sum(self.answers.values())


class Callers:
    """Callers that ask numbered questions without pause and check each answer. An async context manager.

    Args:
        mesh: whom they ask.
        count: how many call at the same time.
    """

    def __init__(self, mesh: Mesh, count: int) -> None:
        self.load = Load()
        self._mesh = mesh
        self._count = count
        self._tasks: list[asyncio.Task[None]] = []
        self._stopping = False

    async def __aenter__(self) -> Callers:
        self._tasks = [asyncio.create_task(self._call(number)) for number in range(self._count)]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._stopping = True
        await asyncio.gather(*self._tasks)

    async def more(self, count: int, seconds: float = 20) -> None:
        """Wait until `count` calls more have been answered."""
        goal = self.load.count + count

        async def reached() -> bool:
            return self.load.count >= goal

        await eventually(reached, seconds, f"{count} more answers")

    async def more_decided(self, count: int, seconds: float = 20) -> None:
        """Wait until the processor has decided `count` calls more."""
        goal = self.load.answers["decided"] + count

        async def reached() -> bool:
            return self.load.answers["decided"] >= goal

        await eventually(reached, seconds, f"{count} more decided answers")

    async def _call(self, caller: int) -> None:
        connection: Connection | None = None
        number = 0
        while not self._stopping:
            number += 1
            text = f"question-{caller}-{number}"
            began = time.monotonic()
            try:
                connection = connection or await connect(self._mesh.proxy_port)
                async with asyncio.timeout(20):
                    await connection.send(json_request(CHAT, chat(text)))
                    answer = await connection.receive()
            except (OSError, EOFError, TimeoutError) as error:
                self.load.wrong.append(f"{text}: {error!r}")
                connection = None
                await asyncio.sleep(0.05)
                continue
            self._check(text, answer)
            self.load.slowest = max(self.load.slowest, time.monotonic() - began)
            if answer.get("connection") == "close":
                connection.writer.close()
                connection = None
        if connection is not None:
            connection.writer.close()

    def _check(self, text: str, answer: Answer) -> None:
        decided = "decided" if answer.get("x-outrigger-model") else "as-is"
        self.load.answers[decided if answer.status == 200 else str(answer.status)] += 1
        try:
            content = answer.json()["choices"][0]["message"]["content"]
        except (ValueError, LookupError):
            self.load.wrong.append(f"{text}: {answer.status} {answer.body[:200]!r}")
            return
        if answer.status != 200 or not content.endswith(f" to {text}"):
            self.load.wrong.append(f"{text}: {answer.status} {content}")


def raise_descriptor_limit() -> None:
    """Allow as many open files as the system lets us."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


async def one_by_one(port: int, requests: Iterable[bytes]) -> list[tuple[Answer, float]]:
    """Send each request when the one before is answered; return the answers, and after how many seconds.

    They share a connection as long as it lasts. Who answers a request before all of it has come says
    `connection: close`, and nothing more may be sent there (RFC 9112, section 9.6).
    """
    answered: list[tuple[Answer, float]] = []
    connection = await connect(port)
    try:
        for request in requests:
            began = time.monotonic()
            await connection.send(request)
            answer = await connection.receive()
            answered.append((answer, time.monotonic() - began))
            if answer.get("connection") == "close":
                connection.writer.close()
                connection = await connect(port)
        return answered
    finally:
        connection.writer.close()


async def burst(port: int, count: int, document: dict[str, Any], seconds: float) -> list[Answer]:
    """Send `count` requests at the same moment, each on a connection that is already open."""
    request = json_request(CHAT, json.dumps(document).encode())
    connections: list[Connection] = []
    for start in range(0, count, 200):
        connections += await asyncio.gather(*(connect(port) for _ in range(start, min(count, start + 200))))
    try:
        async with asyncio.timeout(seconds):
            for connection in connections:
                connection.writer.write(request)
            return await asyncio.gather(*(connection.receive() for connection in connections))
    finally:
        for connection in connections:
            connection.writer.close()
