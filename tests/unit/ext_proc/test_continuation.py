"""A flight goes on without its leader, by a call of its own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import orjson
import pytest
import structlog
from structlog.testing import capture_logs

from ext_proc.answer_forms import READ_AT_MOST_BYTES
from ext_proc.continuation import CallFailed, FlightContinuation, Reply
from ext_proc.exchange import Answered, Exchange, Forward, RequestHead
from ext_proc.flights import Flight, Flights, Landed
from ext_proc.live_stream import LiveStream, StreamCut
from ext_proc.openai.paths import Operation
from tests.unit.ext_proc.exchanges import exchange
from tests.unit.ext_proc.test_flights import DONE, FOLLOWER, all_of, event, settled

JSON = {"content-type": "application/json", "x-outrigger-backend": "b"}
STREAM = {"content-type": "text/event-stream", "x-outrigger-backend": "b"}
WHOLE = orjson.dumps(
    {"choices": [{"index": 0, "message": {"content": "abc"}, "finish_reason": "stop"}], "usage": {}}
)
FINISH = b'data: {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}\n\n'


@dataclass
class Provider:
    """A caller whose provider answers what a test says: parts, or a failure in their midst."""

    status: int = 200
    headers: Mapping[str, str] = field(default_factory=lambda: JSON)
    said: Sequence[bytes | Exception] = (WHOLE,)
    raw: Sequence[tuple[bytes, bytes]] = ()
    refused: Exception | None = None
    holds: bool = False
    calls: list[tuple[RequestHead, Forward, bytes]] = field(default_factory=list)
    ended: int = 0

    @asynccontextmanager
    async def call(self, head: RequestHead, forward: Forward, body: bytes) -> AsyncIterator[Reply]:
        """Answer, or fail."""
        self.calls.append((head, forward, body))
        try:
            if self.refused is not None:
                raise self.refused
            if self.holds:
                await asyncio.Event().wait()
            yield self
        finally:
            self.ended += 1

    async def parts(self) -> AsyncIterator[bytes]:
        """Yield what is said."""
        for part in self.said:
            await asyncio.sleep(0)
            if isinstance(part, Exception):
                raise part
            yield part


class Sky:
    """Flights, and who carries them on."""

    def __init__(self, provider: Provider, *, stream: bool = False) -> None:
        self.provider = provider
        self.flights = Flights()
        self.kept: list[tuple[Exchange, Answered]] = []
        self.over: list[Exchange] = []
        self.continuation = FlightContinuation(
            self.flights,
            provider,
            lambda *kept: self.kept.append(kept),
            structlog.get_logger(),
            self.over.append,
        )
        leader = exchange()
        leader.forwarded = Forward("route")
        self.live = LiveStream(Operation.CHAT) if stream else None
        self.flight: Flight = self.flights.open(b"k", leader, self.live)

    async def carried(self) -> list[Any]:
        """Let two wait, the leader leave, and return what they got."""
        waiting = [asyncio.create_task(self.flights.wait(self.flight)) for _ in range(2)]
        await settled()
        self.continuation.take_over(self.flight)
        return await asyncio.gather(*waiting, return_exceptions=True)

    async def followed(self) -> bytes:
        """Let one follow, the leader leave, and return what it heard; raises StreamCut as it does."""
        assert self.live is not None
        self.flights.board(self.flight, self.flights.expect(self.flight, FOLLOWER))
        following = asyncio.create_task(all_of(self.live))
        await settled()
        self.continuation.take_over(self.flight)
        return await following


async def test_those_who_wait_get_the_answer_of_one_more_call() -> None:
    """It is kept in the leader's name, and the flight is over."""
    sky = Sky(Provider())
    landed = Landed(WHOLE, "application/json", "b")
    assert await sky.carried() == [landed, landed]
    ((kept_for, kept),) = sky.kept
    assert (kept_for, kept.body) == (sky.flight.leader, WHOLE)
    assert len(sky.provider.calls) == 1
    assert sky.provider.calls[0] == (sky.flight.leader.head, Forward("route"), sky.flight.leader.body)
    assert len(sky.flights) == 0
    await settled()
    assert sky.provider.ended == 1
    assert sky.over == [sky.flight.leader]


async def test_a_call_that_is_not_begun_is_over_too() -> None:
    """Whoever waited may leave before its first step: what the leader holds is let go all the same."""
    sky = Sky(Provider())
    waiting = asyncio.create_task(sky.flights.wait(sky.flight))
    await settled()
    waiting.cancel()
    sky.continuation.take_over(sky.flight)
    await settled()
    assert (sky.provider.calls, sky.over, len(sky.flights)) == ([], [sky.flight.leader], 0)


@pytest.mark.parametrize(
    "provider",
    [
        pytest.param(Provider(status=429, said=[b"{}"]), id="429"),
        pytest.param(Provider(status=500, said=[b"<html>"]), id="500"),
        pytest.param(Provider(headers={**JSON, "content-encoding": "gzip"}), id="gzip"),
        pytest.param(Provider(headers={"content-type": "text/html"}, said=[b"<html>"]), id="HTML"),
        pytest.param(Provider(said=[]), id="nothing"),
        pytest.param(Provider(said=[b'{"error": {"message": "x"}}']), id="an error in a 200"),
        pytest.param(Provider(said=[WHOLE[:-5]]), id="half of it"),
        pytest.param(Provider(said=[b"x" * (READ_AT_MOST_BYTES + 1)]), id="too long"),
        pytest.param(Provider(said=[WHOLE[:9], CallFailed("reset")]), id="it breaks off"),
        pytest.param(Provider(refused=CallFailed("no connection")), id="no connection"),
        pytest.param(Provider(refused=ZeroDivisionError()), id="a fault of ours"),
    ],
)
async def test_without_a_whole_answer_everybody_goes_on_alone(provider: Provider) -> None:
    """Nothing is kept, nothing is left."""
    sky = Sky(provider)
    with capture_logs() as logs:
        assert await sky.carried() == [None, None]
    assert (sky.kept, len(sky.flights), provider.ended) == ([], 0, 1)
    await settled()
    assert sky.over == [sky.flight.leader]
    levels = [entry["log_level"] for entry in logs]
    assert levels == (["error"] if isinstance(provider.refused, ZeroDivisionError) else ["info"])


async def test_a_call_that_was_never_sent_is_not_sent_by_us() -> None:
    """The leader was refused."""
    sky = Sky(Provider())
    sky.flight.leader.forwarded = None
    assert await sky.carried() == [None, None]
    assert sky.provider.calls == []


async def test_when_the_last_one_leaves_the_call_is_ended() -> None:
    """At once."""
    sky = Sky(Provider(holds=True))
    waiting = asyncio.create_task(sky.flights.wait(sky.flight))
    await settled()
    sky.continuation.take_over(sky.flight)
    await settled()
    assert (len(sky.provider.calls), sky.provider.ended) == (1, 0)
    waiting.cancel()
    await settled()
    assert (sky.provider.ended, len(sky.flights)) == (1, 0)


SECOND = event("ab") + event("c") + FINISH + DONE


@pytest.mark.parametrize("size", [1, 7, 1000])
@pytest.mark.parametrize("told", [b"", event("a"), event("abc"), event("abc") + FINISH])
async def test_a_stream_goes_on_where_it_stopped(told: bytes, size: int) -> None:
    """Whatever was told, the followers hear the rest, and those who wait get the whole."""
    parts = [SECOND[at : at + size] for at in range(0, len(SECOND), size)]
    sky = Sky(Provider(headers=STREAM, said=parts), stream=True)
    assert sky.live is not None
    sky.live.append(told + b"data: hal")
    waiting = asyncio.create_task(sky.flights.wait(sky.flight))
    heard = await sky.followed()
    assert text_of(heard) == "abc"
    assert (heard.count(b'"stop"'), heard.count(b"[DONE]")) == (1, 1)
    landed = await waiting
    assert isinstance(landed, Landed)
    assert orjson.loads(landed.body)["choices"][0]["message"]["content"] == "abc"
    assert sky.flight.backend == "b"


def text_of(stream: bytes) -> str:
    """Return the joined text."""
    documents: list[dict[str, Any]] = [
        orjson.loads(line[6:]) for line in stream.splitlines() if line.startswith(b"data: {")
    ]
    return "".join(one["delta"].get("content") or "" for doc in documents for one in doc["choices"])


async def test_a_stream_is_continued_by_an_answer_in_one_piece() -> None:
    """The provider may choose so the second time."""
    sky = Sky(Provider(), stream=True)
    assert sky.live is not None
    sky.live.append(event("a"))
    heard = await sky.followed()
    assert (text_of(heard), heard.count(b"[DONE]")) == ("abc", 1)


@pytest.mark.parametrize("said", [[WHOLE.replace(b"abc", b"xyz")], [WHOLE[:-5]]], ids=["another", "half"])
async def test_an_answer_in_one_piece_that_differs_cuts_the_stream(said: list[bytes]) -> None:
    """There is no end that nobody said."""
    sky = Sky(Provider(said=said), stream=True)
    assert sky.live is not None
    sky.live.append(event("a"))
    with pytest.raises(StreamCut):
        await sky.followed()


async def test_a_stream_that_differs_is_cut_but_is_an_answer_for_those_who_wait() -> None:
    """They have heard nothing yet."""
    sky = Sky(Provider(headers=STREAM, said=[event("x"), event("y"), FINISH + DONE]), stream=True)
    assert sky.live is not None
    sky.live.append(event("a"))
    waiting = asyncio.create_task(sky.flights.wait(sky.flight))
    with pytest.raises(StreamCut):
        await sky.followed()
    landed = await waiting
    assert isinstance(landed, Landed)
    assert orjson.loads(landed.body)["choices"][0]["message"]["content"] == "xy"
    assert len(sky.provider.calls) == 1


async def test_a_stream_that_differs_is_not_read_for_nobody() -> None:
    """With followers alone the call ends there."""
    sky = Sky(Provider(headers=STREAM, said=[event("x"), CallFailed("read on")]), stream=True)
    assert sky.live is not None
    sky.live.append(event("a"))
    with capture_logs() as logs, pytest.raises(StreamCut):
        await sky.followed()
    await settled()
    assert "go on" in logs[0]["reason"]


async def test_a_second_stream_that_breaks_off_is_cut() -> None:
    """Without a made-up finish, after what it said."""
    sky = Sky(Provider(headers=STREAM, said=[event("ab"), CallFailed("reset")]), stream=True)
    assert sky.live is not None
    sky.live.append(event("a"))
    with pytest.raises(StreamCut):
        await sky.followed()
    assert text_of(sky.live.so_far()) == "ab"
