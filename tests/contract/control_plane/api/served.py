"""The API as it is served: the real registry on SQLite, the real fleet, uvicorn on a real port."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import socket
import time
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import Future
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from threading import Event, Thread
from typing import Any

import httpx
import structlog
import uvicorn
from fastapi import FastAPI

from control_plane.api.application import Parts, create_application
from control_plane.api.playground import Proxy
from control_plane.api.ports import Surroundings
from control_plane.auth.ended import EndedSessions
from control_plane.auth.gate import Gate
from control_plane.auth.roles import Role
from control_plane.auth.sessions import Sessions
from control_plane.auth.throttle import Throttle
from control_plane.auth.tokens import TokenParts, matches, new_token
from control_plane.push.fleet import Fleet
from control_plane.push.questions import Questions
from control_plane.registry.registry import Registry
from control_plane.registry.values import ITSELF, TokenRow
from control_plane.secrets.fernet import FernetSealer
from control_plane.secrets.key_source import key_source
from control_plane.store.opening import store_for
from tests.harness.plain import PLAIN

ADMIN = "the operator's token"
WORK = 2
"""For a token's digest: those made here guard nothing. Those that the API makes are as everywhere."""


class QuietServer(uvicorn.Server):
    """Uvicorn that leaves signals to the test runner."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals alone."""
        yield


@dataclass(slots=True)
class Served:
    """A running API and what is behind it."""

    url: str
    registry: Registry
    fleet: Fleet
    questions: Questions
    app: FastAPI
    data_dir: Path

    def client(self, token: str | None = ADMIN, **options: Any) -> httpx.AsyncClient:
        """Return a client that shows `token`."""
        headers = {"authorization": f"Bearer {token}"} if token is not None else {}
        return httpx.AsyncClient(base_url=self.url, headers=headers, timeout=30, verify=PLAIN, **options)

    async def token(self, role: Role, *scopes: str) -> str:
        """Return a new token."""
        made = new_token(
            "", role, scopes, now=datetime.now(UTC), expires_at=None, entropy=secrets.token_bytes, work=WORK
        )
        await self.registry.add_token(made.row, ITSELF)
        return made.token


async def read(client: httpx.AsyncClient, method: str, path: str, **options: Any) -> tuple[int, str]:
    """Return the status and the text of an answer; of one without end its first event."""
    async with client.stream(method, path, **options) as answer:
        if answer.headers.get("content-type", "").startswith("text/event-stream"):
            return answer.status_code, await anext(answer.aiter_text())
        await answer.aread()
        return answer.status_code, answer.text


def _matches(parts: TokenParts, row: TokenRow | None) -> bool:
    return matches(parts, row, WORK) or matches(parts, row)


@asynccontextmanager
async def serve(
    data_dir: Path, *, burst: int = 100, min_ready_sidecars: int = 0, proxy: Proxy | None = None
) -> AsyncIterator[Served]:
    """Run an API over the database in `data_dir`."""

    def now() -> datetime:
        return datetime.now(UTC)

    log = structlog.get_logger()
    sealer = FernetSealer(key_source(None, data_dir, secrets.token_bytes))
    store = store_for(None, data_dir)
    registry = Registry(store, sealer, now=now, random_bytes=secrets.token_bytes, log=log, poll_s=0.1)
    await registry.open()
    fleet = Fleet(
        clock=time.monotonic,
        now=now,
        later=asyncio.get_running_loop().call_later,
        on_halt=lambda revision, reason: None,
        mark=secrets.token_bytes(8),
        log=log,
    )
    gate = Gate(
        registry,
        given=ADMIN,
        key=secrets.token_bytes(32),
        throttle=Throttle(time.monotonic, burst=burst),
        clock=time.monotonic,
        now=now,
        check=_matches,
    )
    sessions = Sessions(time.time, secrets.token_bytes, b"k", EndedSessions(store, time.time))
    questions = Questions(fleet, lambda: secrets.randbits(64))
    surroundings = Surroundings(now, secrets.token_bytes)
    parts = Parts(registry, fleet, gate, sessions, surroundings, log, questions, proxy)
    app = create_application(parts, version="1.2.3", min_ready_sidecars=min_ready_sidecars)
    config = uvicorn.Config(app, log_config=None, access_log=False, proxy_headers=False, lifespan="off")
    server = QuietServer(config)
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        # Who comes before the server accepts waits.
        listener.listen(128)
        running = asyncio.create_task(server.serve(sockets=[listener]))
        try:
            url = f"http://127.0.0.1:{listener.getsockname()[1]}"
            yield Served(url, registry, fleet, questions, app, data_dir)
        finally:
            server.should_exit = True
            await running
            await registry.close()


@contextmanager
def serving(data_dir: Path, *, burst: int = 100) -> Iterator[Served]:
    """Run an API over the database in `data_dir` on a loop of its own, for tests that share it."""
    started: Future[Served] = Future()
    ending = Event()

    async def run() -> None:
        async with serve(data_dir, burst=burst) as served:
            started.set_result(served)
            await asyncio.to_thread(ending.wait)

    thread = Thread(target=lambda: asyncio.run(run()))
    thread.start()
    try:
        yield started.result(30)
    finally:
        ending.set()
        thread.join(30)
