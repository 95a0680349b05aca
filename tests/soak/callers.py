"""Asks questions of the mesh as many callers do, and writes down what becomes of each."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Coroutine
from typing import Any, Final

from tests.harness.raw_http import Connection, connect, json_request
from tests.soak.ledger import Entry
from tests.soak.questions import Got, Kind, Outcome, Question, judge
from tests.soak.traffic import Talk, Traffic, arrivals

ANSWER_WITHIN_S: Final = 60.0
OPEN_AT_MOST: Final = 600
KEPT_CONNECTIONS: Final = 64
LEAVE: Final = 0.03
LEAVE_WITHIN_S: Final = 0.4


class Callers:
    """Everybody who asks.

    Args:
        port: the proxy's.
        traffic: what is asked.
        chance: when it is.
    """

    def __init__(self, port: int, traffic: Traffic, chance: random.Random) -> None:
        self.entries: list[Entry] = []
        self.refrained = 0
        self._port = port
        self._traffic = traffic
        self._chance = chance
        self._idle: list[Connection] = []
        self._open: set[asyncio.Task[None]] = set()

    @property
    def under_way(self) -> int:
        """How many questions have no answer yet."""
        return len(self._open)

    async def ask_for(self, seconds: float, per_second: float) -> None:
        """Ask at random moments, so many a second; return when no more is asked."""
        ending = time.monotonic() + seconds
        moment = time.monotonic()
        for wait in arrivals(self._chance, per_second):
            moment += wait
            if moment > ending:
                return
            await asyncio.sleep(max(0.0, moment - time.monotonic()))
            if len(self._open) >= OPEN_AT_MOST:
                self.refrained += 1
                continue
            self._ask_next()

    async def flood(self, seconds: float, count: int) -> float:
        """Have `count` callers ask one question after the other; return how many were answered a second."""
        ending = time.monotonic() + seconds
        before = len(self.entries)

        async def caller() -> None:
            while time.monotonic() < ending:
                await asyncio.gather(*self._ask_next())

        await asyncio.gather(*(caller() for _ in range(count)))
        return (len(self.entries) - before) / seconds

    async def answered(self) -> None:
        """Wait until every question is answered, and let connections go."""
        await asyncio.gather(*self._open)
        while self._idle:
            self._idle.pop().writer.close()

    def _ask_next(self) -> list[asyncio.Task[None]]:
        questions = self._traffic.next()
        if questions[0].kind is Kind.SESSION:
            talk = self._traffic.free()
            if talk is None:
                return []
            talk.busy = True
            return [self._begin(self._turn(talk))]
        return [self._begin(self.ask(question)) for question in questions]

    def _begin(self, asking: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(asking)
        self._open.add(task)
        task.add_done_callback(self._open.discard)
        return task

    async def _turn(self, talk: Talk) -> None:
        question = self._traffic.turn(talk)
        talk.since = talk.since or time.monotonic()
        earlier = tuple(talk.asked)
        talk.asked.append(question.name)
        try:
            await self.ask(question, earlier, talk.since)
        finally:
            talk.busy = False

    async def ask(
        self, question: Question, earlier: tuple[str, ...] = (), since: float | None = None
    ) -> None:
        """Ask one question and write down what becomes of it."""
        asked_at = time.monotonic()
        got = None
        leaves = self._chance.random() < LEAVE
        within_s = self._chance.random() * LEAVE_WITHIN_S if leaves else ANSWER_WITHIN_S
        try:
            async with asyncio.timeout(within_s):
                got = await self._exchange(question)
        except TimeoutError:
            now = time.monotonic()
            left = Outcome.LEFT if leaves else Outcome.LOST
            self.entries.append(Entry(question.name, question.kind, asked_at, now, left, "", since))
            return
        except (OSError, EOFError, asyncio.LimitOverrunError, ValueError):
            got = None
        outcome, why = judge(question, got, earlier)
        now = time.monotonic()
        self.entries.append(Entry(question.name, question.kind, asked_at, now, outcome, why, since))

    async def _exchange(self, question: Question) -> Got:
        connection = await self._connection()
        again = False
        try:
            headers = list(question.headers.items())
            await connection.send(json_request(question.target, question.document, headers))
            status, fields = await connection.receive_head()
            named = {name.lower(): value for name, value in fields}
            body, whole = await _body(connection, named)
            again = whole and named.get("connection") != "close"
            return Got(status, named, body, whole)
        finally:
            if again and len(self._idle) < KEPT_CONNECTIONS:
                self._idle.append(connection)
            else:
                connection.writer.close()

    async def _connection(self) -> Connection:
        while self._idle:
            kept = self._idle.pop()
            # One that the other side has closed meanwhile is none.
            if not kept.reader.at_eof() and not kept.writer.is_closing():
                return kept
        return await connect(self._port)


async def _body(connection: Connection, headers: dict[str, str]) -> tuple[bytes, bool]:
    """Read a body; return what came of it, and whether it ended in order."""
    pieces: list[bytes] = []
    try:
        if headers.get("transfer-encoding", "").lower() == "chunked":
            while piece := await connection.receive_chunk():
                pieces.append(piece)
            await connection.reader.readuntil(b"\r\n")
        else:
            pieces.append(await connection.reader.readexactly(int(headers.get("content-length", "0"))))
    except (OSError, EOFError, ValueError):
        return b"".join(pieces), False
    return b"".join(pieces), True
