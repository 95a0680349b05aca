"""Clients as the articles write them, and the application behind a sidecar.

They differ in who waits for whom and in when a connection is opened; what they ask is not theirs to know.
"""

from __future__ import annotations

import asyncio
import http.client
import itertools
import json
import threading
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import httpx

from tests.harness.raw_http import Connection, connect, json_request
from tests.reproduce.measured import Outcome, Run
from tests.reproduce.questions import Call

PATH = "/v1/chat/completions"
JSON = {"content-type": "application/json"}
SECONDS = 120.0
BACK_OFF_S = 1.0
Calls = Callable[[int], Call]


@dataclass(frozen=True, slots=True)
class Load:
    """A closed loop: `callers`, the last of whom starts after `ramp_s`; each waits for its answer.

    It ends after `calls` calls altogether, or starts none after `seconds`, whichever is set.
    """

    callers: int
    calls: int | None = None
    seconds: float | None = None
    ramp_s: float = 0.0

    def starts_s(self, caller: int) -> float:
        """Return when a caller starts, in seconds from the beginning."""
        return self.ramp_s * caller / self.callers


class _Numbers:
    """Hands out the numbers of calls until the load's end. Threads may share it."""

    def __init__(self, load: Load) -> None:
        self._load = load
        self._next = itertools.count()
        self.began = time.perf_counter()

    def take(self) -> int | None:
        """Return the number of the next call; None when there is none."""
        if self._load.seconds is not None and time.perf_counter() - self.began > self._load.seconds:
            return None
        number = next(self._next)
        return None if self._load.calls is not None and number >= self._load.calls else number

    def run(self, outcomes: list[Outcome]) -> Run:
        """Return the run that ends now."""
        return Run(outcomes, time.perf_counter() - self.began)


async def synchronous(port: int, calls: Calls, load: Load) -> Run:
    """Blocking calls from `callers` threads, each on a connection of its own that is closed afterwards."""
    return await asyncio.to_thread(_threads, port, calls, load)


def _threads(port: int, calls: Calls, load: Load) -> Run:
    numbers, outcomes = _Numbers(load), list[Outcome]()

    def work(caller: int) -> None:
        time.sleep(load.starts_s(caller))
        while (number := numbers.take()) is not None:
            outcomes.append(_blocking(port, calls(number)))

    threads = [threading.Thread(target=work, args=(caller,), daemon=True) for caller in range(load.callers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return numbers.run(outcomes)


def _blocking(port: int, call: Call) -> Outcome:
    began = time.perf_counter()
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=SECONDS)
    try:
        connection.request("POST", PATH, call.body, JSON)
        answer = connection.getresponse()
        body = answer.read()
    except (OSError, http.client.HTTPException):
        return _outcome(call, began, None)
    finally:
        connection.close()
    return _outcome(call, began, json.loads(body) if answer.status == 200 else None)


async def asynchronous(port: int, calls: Calls, load: Load, *, kept: bool = True, attempts: int = 1) -> Run:
    """Callers that do not block each other; each keeps its connection (`kept`), or opens one a call.

    What fails is tried up to `attempts` times, a second apart; the time of all tries counts.
    """
    numbers, outcomes = _Numbers(load), list[Outcome]()

    async def work(caller: int) -> None:
        await asyncio.sleep(load.starts_s(caller))
        connection: Connection | None = None
        while (number := numbers.take()) is not None:
            call, began = calls(number), time.perf_counter()
            for attempt in range(attempts):
                if attempt:
                    await asyncio.sleep(BACK_OFF_S)
                connection, document = await _one_try(port, call, connection)
                if document is not None:
                    break
            outcomes.append(_outcome(call, began, document))
            if not kept:
                await _closed(connection)
                connection = None
        await _closed(connection)

    await asyncio.gather(*map(work, range(load.callers)))
    return numbers.run(outcomes)


async def _one_try(port: int, call: Call, connection: Connection | None) -> tuple[Connection | None, Any]:
    """Return the connection while it can be used again, and the answer if its status is 200."""
    try:
        async with asyncio.timeout(SECONDS):
            connection = connection or await connect(port)
            await connection.send(json_request(PATH, call.body))
            answer = await connection.receive()
    except (OSError, EOFError, TimeoutError):
        await _closed(connection)
        return None, None
    return connection, answer.json() if answer.status == 200 else None


async def _closed(connection: Connection | None) -> None:
    if connection is not None:
        await connection.__aexit__()


async def pooled(port: int, calls: Calls, load: Load, *, connections: int) -> Run:
    """Callers that share so many connections, and wait in turn for a free one."""
    numbers, outcomes = _Numbers(load), list[Outcome]()
    free: list[Connection | None] = [None] * connections
    turns = asyncio.Semaphore(connections)

    async def work(caller: int) -> None:
        await asyncio.sleep(load.starts_s(caller))
        while (number := numbers.take()) is not None:
            call, began = calls(number), time.perf_counter()
            async with turns:
                connection, document = await _one_try(port, call, free.pop())
                free.append(connection)
            outcomes.append(_outcome(call, began, document))

    await asyncio.gather(*map(work, range(load.callers)))
    for connection in free:
        await _closed(connection)
    return numbers.run(outcomes)


async def multiplexed(port: int, calls: Calls, load: Load) -> Run:
    """Callers that share one HTTP/2 connection."""
    async with httpx.AsyncClient(http1=False, http2=True, timeout=SECONDS, trust_env=False) as client:
        numbers, outcomes = _Numbers(load), list[Outcome]()

        async def work(caller: int) -> None:
            await asyncio.sleep(load.starts_s(caller))
            while (number := numbers.take()) is not None:
                call, began = calls(number), time.perf_counter()
                answer = await client.post(f"http://127.0.0.1:{port}{PATH}", content=call.body, headers=JSON)
                outcomes.append(_outcome(call, began, answer.json() if answer.status_code == 200 else None))

        await asyncio.gather(*map(work, range(load.callers)))
        return numbers.run(outcomes)


def _outcome(call: Call, began: float, document: Any) -> Outcome:
    seconds, conversations = time.perf_counter() - began, len(call.answers)
    if document is None:
        return Outcome(seconds, conversations, 0, failed=True)
    tokens = (document.get("usage") or {}).get("completion_tokens", 0)
    return Outcome(seconds, conversations, call.own(document), tokens)


async def together(*runs: Awaitable[Run]) -> list[Run]:
    """Return several runs that are made at the same time: of rows that wait more than they compute."""
    return list(await asyncio.gather(*runs))
