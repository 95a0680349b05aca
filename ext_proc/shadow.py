"""Asking a Release's new version what the old one was asked, for nobody, and comparing the two.

A call that is made here goes through Envoy like any other, within the quota of its Backend. It is nobody's:
no limit counts it, no session keeps it, no cache and no caller gets its answer. It never waits: where there
is no room, it is not made.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from structlog.typing import FilteringBoundLogger

from ext_proc.answer_forms import READ_AT_MOST_BYTES, STREAM_TYPE, is_readable
from ext_proc.continuation import Caller, CallFailed, Reply, whole_body
from ext_proc.contract import headers as names
from ext_proc.contract.snapshot import Backend
from ext_proc.exchange import Answer, Exchange, Forward, RequestHead
from ext_proc.openai.recording import StreamRecorder
from ext_proc.openai.requests import BadRequest, parse_request
from ext_proc.openai.responses import parse_completion
from ext_proc.pairs import Came, compared
from ext_proc.release_tally import Mirrored, ReleaseTally
from ext_proc.snapshots import Loaded

AT_ONCE: Final = 16
"""How many such calls a processor makes at the same time."""
SHARE_OF_PLACES: Final = 4
"""Of a Backend's places (`quota.concurrency`) they take one in so many at most, but one."""
MAX_BODY_BYTES: Final = 1024 * 1024
WAITS_AT_MOST_S: Final = 0.05
"""Who would have to wait longer for a Backend is not asked."""
CALL_AT_MOST_S: Final = 300.0
OWN_COST_S: Final = 0.005
"""What a call of ours may take beyond one of Envoy's: a connection, some turns of a busy loop."""
NO_ROUTE: Final = "no-route"
_JSON: Final = "application/json"
# Said anew, or of the one call that the caller made.
_LEFT_OUT: Final = frozenset(
    ("content-encoding", "content-length", "content-type", "idempotency-key", "traceparent", "tracestate")
)


class NotAsked(Exception):
    """The new version is not asked; `outcome` says why."""

    def __init__(self, outcome: Mirrored) -> None:
        super().__init__(outcome.value)
        self.outcome = outcome


class ShadowCalls:
    """Makes the calls. For one event loop.

    Args:
        current: the snapshot in force.
        caller: who makes a call.
        tally: told of every outcome.
        clock: a monotonic time in seconds.
        log: where a failure of our own is told.
    """

    def __init__(
        self,
        current: Callable[[], Loaded | None],
        caller: Caller,
        tally: ReleaseTally,
        clock: Callable[[], float],
        log: FilteringBoundLogger,
    ) -> None:
        self._current = current
        self._caller = caller
        self._tally = tally
        self._clock = clock
        self._log = log
        self._asking: set[asyncio.Task[None]] = set()
        self._by_backend: Counter[str] = Counter()
        self._decide: Callable[[Exchange], Awaitable[Answer | Forward | None]] | None = None
        self._ended: Callable[[Exchange], None] = lambda exchange: None

    def go_by(
        self,
        decide: Callable[[Exchange], Awaitable[Answer | Forward | None]],
        ended: Callable[[Exchange], None],
    ) -> None:
        """Say who decides where a call goes, and who hears of its end; at the start."""
        self._decide, self._ended = decide, ended

    def has_room(self) -> bool:
        """Say whether one more may be asked; one that may not is counted."""
        if len(self._asking) < AT_ONCE:
            return True
        self._tally.count(Mirrored.DROPPED_CAP)
        return False

    def unread(self) -> None:
        """Count a call of which too little was seen."""
        self._tally.count(Mirrored.DROPPED_UNREAD)

    def ask(self, exchange: Exchange, body: bytes, came: Came) -> None:
        """Ask the new version `body` in the background; `came` is what the old one made of it."""
        if not self.has_room():
            return
        if len(body) > MAX_BODY_BYTES:
            self._tally.count(Mirrored.DROPPED_LARGE)
            return
        task = asyncio.get_running_loop().create_task(self._ask(exchange, body, came), name="shadow")
        self._asking.add(task)
        task.add_done_callback(self._asking.discard)

    async def close(self) -> None:
        """End every call."""
        calls = list(self._asking)
        for task in calls:
            task.cancel()
        await asyncio.gather(*calls, return_exceptions=True)

    async def _ask(self, exchange: Exchange, body: bytes, old: Came) -> None:
        try:
            made, backend = self._exchange(exchange, body)
            new = await self._within_its_places(made, backend)
        except NotAsked as why:
            self._tally.count(why.outcome)
            return
        except (CallFailed, TimeoutError):
            self._tally.count(Mirrored.UNSENT)
            return
        except Exception as error:
            self._tally.count(Mirrored.UNSENT)
            self._log.error("a shadow call failed", error=type(error).__name__, exc_info=True)
            return
        self._tally.count(Mirrored.ANSWERED if new.is_answer else Mirrored.FAILED)
        self._tally.add(exchange.release, compared(made.parsed.operation, old, new))

    def _exchange(self, exchange: Exchange, body: bytes) -> tuple[Exchange, Backend]:
        """Return the question as asked of the new version now. Raises NotAsked: that may no longer be."""
        loaded = self._current()
        model = loaded.snapshot.models.get(exchange.model_name) if loaded is not None else None
        releases = model.releases if model is not None else ()
        rollout = next((one for one in releases if one.name == exchange.release and one.shadow > 0), None)
        if loaded is None or model is None or rollout is None:
            raise NotAsked(Mirrored.DROPPED_ENDED)
        version = next((one for one in model.versions if one.name == rollout.to_version), None)
        backend = loaded.snapshot.backends.get(version.backend) if version is not None else None
        if version is None or backend is None:
            raise NotAsked(Mirrored.DROPPED_ENDED)
        head = exchange.head
        asked = RequestHead("POST", head.path, head.query, _headers(head.headers))
        made = Exchange(asked, loaded, exchange.classified, holds_snapshot=False)
        made.body, made.tenant, made.consumer = body, exchange.tenant, exchange.consumer
        made.request = parse_request(exchange.classified.operation, body, _JSON, None)
        made.asked_model, made.model, made.version, made.backend = model.name, model, version, backend
        made.assigned = version.name
        made.policy = loaded.policy_of(model, version, exchange.tier)
        made.wants_body, made.wants_stream = True, made.parsed.stream
        return made, backend

    async def _within_its_places(self, made: Exchange, backend: Backend) -> Came:
        places = backend.quota.concurrency
        if places is not None and self._by_backend[backend.name] >= max(places // SHARE_OF_PLACES, 1):
            raise NotAsked(Mirrored.DROPPED_COOLING)
        self._by_backend[backend.name] += 1
        try:
            async with asyncio.timeout(CALL_AT_MOST_S):
                return await self._call(made)
        finally:
            self._by_backend[backend.name] -= 1
            self._ended(made)

    async def _call(self, made: Exchange) -> Came:
        decision = await self._decided(made)
        made.forwarded = decision
        sent = self._clock()
        async with self._caller.call(made.head, decision, made.body) as reply:
            if reply.headers.get(names.ERROR) == NO_ROUTE:
                raise NotAsked(Mirrored.DROPPED_ENDED)
            return await self._read(made, reply, sent)

    async def _decided(self, made: Exchange) -> Forward:
        """Return where the call goes. Raises NotAsked: it would have to wait, or may not be made."""
        if self._decide is None:
            raise NotAsked(Mirrored.UNSENT)
        try:
            async with asyncio.timeout(WAITS_AT_MOST_S):
                decision = await self._decide(made)
        except TimeoutError:
            raise NotAsked(Mirrored.DROPPED_COOLING) from None
        except BadRequest:
            raise NotAsked(Mirrored.DROPPED_REFUSED) from None
        if not isinstance(decision, Forward):
            raise NotAsked(Mirrored.DROPPED_COOLING)
        return decision

    async def _read(self, made: Exchange, reply: Reply, sent: float) -> Came:
        if not is_readable(reply.status, reply.headers):
            return Came(reply.status, self._since(sent))
        operation = made.parsed.operation
        try:
            if not reply.headers.get("content-type", "").startswith(STREAM_TYPE):
                body = await whole_body(reply)
                return Came(200, self._since(sent), None, body, parse_completion(operation, body))
            recorder = StreamRecorder(operation, hides_usage=False, max_bytes=READ_AT_MOST_BYTES)
            first_s: float | None = None
            async for part in reply.parts():
                first_s = self._since(sent) if first_s is None else first_s
                recorder.feed(part, end=False)
            recorder.feed(b"", end=True)
        except CallFailed:
            # It had begun to answer.
            return Came(200, self._since(sent))
        if not recorder.complete:
            return Came(200, self._since(sent), first_s)
        body = recorder.answer()
        return Came(200, self._since(sent), first_s, body, parse_completion(operation, body))

    def _since(self, sent: float) -> float:
        return max(self._clock() - sent - OWN_COST_S, 0.0)


def _headers(sent: Mapping[str, str]) -> dict[str, str]:
    kept = {
        name: value
        for name, value in sent.items()
        if name not in _LEFT_OUT and not name.startswith(names.PREFIX)
    }
    return {**kept, "content-type": _JSON}
