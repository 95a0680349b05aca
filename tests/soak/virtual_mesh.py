"""What stands around the pipeline in a history: Envoy, the provider and the books, all in virtual time."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import orjson

from ext_proc.continuation import CallFailed, Reply
from ext_proc.contract import headers as names
from ext_proc.contract.routes import ORIGIN_ROUTE
from ext_proc.exchange import Answer, Exchange, Forward, RequestHead, Wish
from ext_proc.flights import Flight, Flights, Follower
from ext_proc.limits.book import MemoryBook
from ext_proc.limits.claims import Claim, Reservation, Verdict
from ext_proc.live_stream import LiveStream, StreamCut
from ext_proc.pipeline import Pipeline
from ext_proc.providers.quota import Ask, Draft, MemoryQuotas, Wait
from tests.soak.questions import DECIDED, Got
from tests.soak.replies import conversation, pieces_of, prompt_tokens, vector_of

JSON: Final = {"content-type": "application/json"}
JUNK: Final = b'{"choices": ['
RETRIED: Final = (429, 500, 503)
SSE: Final = {"content-type": "text/event-stream"}


class WatchedBook(MemoryBook):
    """Keeps every reservation that it made."""

    def __init__(self, clock: Any) -> None:
        super().__init__(lambda: int(clock() * 1e6))
        self.made: list[Reservation] = []

    async def reserve(self, claims: Sequence[Claim], *, refuse_on_loss: bool = False) -> Verdict:
        """Admit, and keep what was reserved; an answer may be a moment on its way."""
        verdict = await super().reserve(claims, refuse_on_loss=refuse_on_loss)
        if verdict.admitted is not None:
            self.made.append(verdict.admitted)
        return verdict

    def held(self) -> int:
        """Return how many places are held."""
        return sum(standing.held for standing in self._standings.values())


class WatchedQuotas(MemoryQuotas):
    """Keeps every draft that it let go."""

    def __init__(self, clock: Any) -> None:
        super().__init__(lambda: int(clock() * 1e6))
        self.drawn: list[Draft] = []

    async def draw(self, ask: Ask) -> Draft | Wait:
        """Draw, and keep what was drawn."""
        drawn = await super().draw(ask)
        if isinstance(drawn, Draft):
            self.drawn.append(drawn)
        return drawn


@dataclass(frozen=True, slots=True)
class Behaviour:
    """How the provider takes one call. Times in seconds; of a stream, `cut_at` pieces come."""

    think_s: float = 0.0
    gap_s: float = 0.0
    status: int = 200
    hint_s: float | None = None
    breaks: bool = False
    cut_at: int | None = None
    junk: bool = False


@dataclass(slots=True)
class Spoken:
    """One answer of the provider, its body in parts, each with the time before it; `cut`: it breaks off."""

    status: int
    headers: dict[str, str]
    parts: list[tuple[float, bytes]]
    cut: bool = False


class Provider:
    """Answers by `replies`; how it behaves is drawn for each call."""

    def __init__(self, chance: random.Random, trouble: float) -> None:
        self.calls = 0
        self._chance = chance
        self._trouble = trouble

    async def answer(self, body: bytes) -> Spoken:
        """Answer a request once it has thought.

        Raises:
            ConnectionError: it breaks off before it says anything.
        """
        self.calls += 1
        behaviour = self._behaviour()
        await asyncio.sleep(behaviour.think_s)
        if behaviour.breaks:
            raise ConnectionError
        document = orjson.loads(body)
        if behaviour.status != 200:
            hint = {} if behaviour.hint_s is None else {"retry-after": f"{behaviour.hint_s:g}"}
            error = {"error": {"message": "no", "type": "server_error", "param": None, "code": None}}
            return Spoken(behaviour.status, {**JSON, **hint}, [(0.0, orjson.dumps(error))])
        if behaviour.junk:
            return Spoken(200, dict(JSON), [(0.0, JUNK)])
        if "input" in document:
            return Spoken(200, dict(JSON), [(0.0, _embeddings(document))])
        if document.get("stream"):
            events = _events(document)
            cut = behaviour.cut_at is not None and behaviour.cut_at < len(events)
            parts = [(behaviour.gap_s, event) for event in events[: behaviour.cut_at]]
            return Spoken(200, dict(SSE), parts, cut)
        return Spoken(200, dict(JSON), [(behaviour.gap_s, _completion(document))])

    def _behaviour(self) -> Behaviour:
        chance = self._chance
        think_s, gap_s = chance.choice((0.0, 0.01, 0.3, 2.0)), chance.choice((0.0, 0.05, 0.5))
        if chance.random() >= self._trouble:
            return Behaviour(think_s, gap_s)
        return chance.choice(
            (
                Behaviour(think_s, status=500),
                Behaviour(think_s, status=429, hint_s=chance.choice((None, 1.0, 0.25, 30.0))),
                Behaviour(think_s, status=503, hint_s=chance.choice((None, 1.0))),
                Behaviour(think_s, status=400),
                Behaviour(think_s, breaks=True),
                Behaviour(think_s, gap_s, cut_at=chance.randrange(8)),
                Behaviour(think_s, junk=True),
                Behaviour(think_s, gap_s=20.0),
            )
        )


def _completion(document: Mapping[str, Any]) -> bytes:
    messages = document["messages"]
    several = isinstance(messages[0], list)
    talks = [conversation(one) for one in (messages if several else [messages])]
    answers = [pieces_of(*talk) for talk in talks]
    choices = [
        {"index": at, "message": {"role": "assistant", "content": "".join(one)}, "finish_reason": "stop"}
        for at, one in enumerate(answers)
    ]
    read = sum(prompt_tokens(one) for one in (messages if several else [messages]))
    made = sum(map(len, answers))
    usage = {"prompt_tokens": read, "completion_tokens": made, "total_tokens": read + made}
    return orjson.dumps({"id": "c", "object": "chat.completion", "choices": choices, "usage": usage})


def _events(document: Mapping[str, Any]) -> list[bytes]:
    pieces = pieces_of(*conversation(document["messages"]))
    chunks: list[dict[str, Any]] = [
        {"choices": [{"index": 0, "delta": {"content": one}, "finish_reason": None}]} for one in pieces
    ]
    chunks.append({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
    if (document.get("stream_options") or {}).get("include_usage"):
        read = prompt_tokens(document["messages"])
        usage = {"prompt_tokens": read, "completion_tokens": len(pieces), "total_tokens": read + len(pieces)}
        chunks.append({"choices": [], "usage": usage})
    return [b"data: " + orjson.dumps(one) + b"\n\n" for one in chunks] + [b"data: [DONE]\n\n"]


def _embeddings(document: Mapping[str, Any]) -> bytes:
    texts = document["input"] if isinstance(document["input"], list) else [document["input"]]
    data = [
        {"object": "embedding", "index": at, "embedding": vector_of(text)} for at, text in enumerate(texts)
    ]
    read = sum(len(text.split()) for text in texts)
    usage = {"prompt_tokens": read, "total_tokens": read}
    return orjson.dumps({"object": "list", "data": data, "usage": usage})


@dataclass(slots=True)
class _Reply:
    status: int
    headers: Mapping[str, str]
    spoken: Spoken
    raw: Sequence[tuple[bytes, bytes]] = ()

    async def parts(self) -> AsyncIterator[bytes]:
        for wait_s, part in self.spoken.parts:
            await asyncio.sleep(wait_s)
            yield part
        if self.spoken.cut:
            raise CallFailed("cut")


class Calls:
    """Makes the processor's own calls (`Caller`)."""

    def __init__(self, provider: Provider) -> None:
        self._provider = provider
        self.open = 0

    @asynccontextmanager
    async def call(self, head: RequestHead, forward: Forward, body: bytes) -> AsyncIterator[Reply]:
        """Ask the provider."""
        self.open += 1
        try:
            try:
                spoken = await self._provider.answer(forward.body or body)
            except ConnectionError:
                # What Envoy says in its place.
                spoken = Spoken(503, {**JSON, names.ERROR: "upstream"}, [(0.0, _UNREACHABLE)])
            raw = [(name.encode(), value.encode()) for name, value in spoken.headers.items()]
            yield _Reply(spoken.status, spoken.headers, spoken, raw)
        finally:
            self.open -= 1


_UNREACHABLE: Final = b'{"error":{"message":"unreachable","type":"server_error","param":null,"code":null}}'


@dataclass(slots=True)
class VirtualEnvoy:
    """Takes exchanges through the pipeline as Envoy does by way of the transport."""

    pipeline: Pipeline
    flights: Flights
    provider: Provider
    calls: Calls
    begun: list[Exchange] = field(default_factory=list)

    async def serve(self, head: RequestHead, body: bytes) -> Got | None:
        """Serve one caller, who may leave at any time; None: the answer broke off at once."""
        exchange = self.pipeline.begin(head)
        self.begun.append(exchange)
        exchange.ask_for_time = _more_time
        ended = False
        try:
            decision = await self.pipeline.request_head(exchange)
            if decision is None:
                decision = await self.pipeline.request_body(exchange, body)
            if isinstance(decision, Answer):
                return _told(decision)
            if not decision.wants_response:
                ended = True
                self.pipeline.end(exchange)
            if decision.route == ORIGIN_ROUTE:
                return await self._from_origin(exchange, decision, seen=not ended)
            return await self._from_provider(exchange, decision, body, seen=not ended)
        finally:
            if not ended:
                self.pipeline.end(exchange)

    async def _from_provider(
        self, exchange: Exchange, forward: Forward, body: bytes, *, seen: bool
    ) -> Got | None:
        sent = body if forward.body is None else forward.body
        spoken = await self._attempt(sent)
        # Who stands in is asked when the first has failed, in order.
        for number in range(1, len(forward.plan.stand_ins) + 1 if forward.plan is not None else 1):
            if spoken.status not in RETRIED:
                break
            spoken = await self._attempt(sent)
            exchange.stand_in(number)
        return await self._pass_on(exchange, spoken, seen=seen)

    async def _attempt(self, body: bytes) -> Spoken:
        try:
            return await self.provider.answer(body)
        except ConnectionError:
            return Spoken(503, {**JSON, names.ERROR: "upstream"}, [(0.0, _UNREACHABLE)])

    async def _pass_on(self, exchange: Exchange, spoken: Spoken, *, seen: bool) -> Got | None:
        headers = {**spoken.headers, DECIDED: exchange.model_name}
        wish: Wish | Answer = Wish.NOTHING
        if seen:
            self.pipeline.routed(exchange)
            wish = self.pipeline.response_head(exchange, spoken.status, spoken.headers)
        if isinstance(wish, Answer):
            return _told(wish)
        passed = b""
        whole = b"".join(part for _, part in spoken.parts)
        for place, (wait_s, part) in enumerate(spoken.parts):
            await asyncio.sleep(wait_s)
            visible: bytes | None = None
            if wish is Wish.CHUNKS:
                last = place == len(spoken.parts) - 1 and not spoken.cut
                visible = self.pipeline.response_chunk(exchange, part, end=last)
            passed += part if visible is None else visible
        if wish is Wish.WHOLE and not spoken.cut:
            self.pipeline.response_body(exchange, whole)
        return Got(spoken.status, headers, passed, not spoken.cut)

    async def _from_origin(self, exchange: Exchange, forward: Forward, *, seen: bool) -> Got | None:
        """Follow a stream, as `transport.origin` serves it."""
        number, _, ticket = dict(forward.add)[names.FLIGHT].partition(".")
        flight = self.flights.numbered(int(number))
        follower = self.flights.board(flight, int(ticket)) if flight is not None else None
        if flight is None or flight.live is None or follower is None:
            return None
        try:
            return await self._follow(exchange, flight, flight.live, follower, seen=seen)
        finally:
            self.flights.disembark(flight)

    async def _follow(
        self, exchange: Exchange, flight: Flight, live: LiveStream, follower: Follower, *, seen: bool
    ) -> Got | None:
        told: list[tuple[float, bytes]] = []
        cut = False
        try:
            async for piece in live.follow(usage=follower.usage):
                told.append((0.0, piece))
        except StreamCut:
            cut = True
        if told:
            return await self._pass_on(exchange, Spoken(200, dict(SSE), told, cut), seen=seen)
        leader = flight.leader
        if leader.forwarded is None:
            if leader.metered is None or leader.metered.refused is None:
                return None
            status, headers, body = leader.metered.refused
            return await self._pass_on(exchange, Spoken(status, dict(headers), [(0.0, body)]), seen=seen)
        try:
            async with self.calls.call(follower.head, leader.forwarded, leader.body) as reply:
                parts = [(0.0, part) async for part in reply.parts()]
        except CallFailed:
            return None
        return await self._pass_on(exchange, Spoken(reply.status, dict(reply.headers), parts), seen=seen)


async def _more_time() -> None:
    """Envoy waits as long as it is told."""


def _told(answer: Answer) -> Got:
    return Got(answer.status, {DECIDED: "by us", **dict(answer.headers)}, answer.body)
