"""The origin over a real Unix socket, a client in Envoy's place."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx
import pytest
import structlog
from structlog.testing import capture_logs

from ext_proc.continuation import CallFailed
from ext_proc.exchange import Forward
from ext_proc.flights import Flight, Flights, Follower
from ext_proc.limits.claims import Metered
from ext_proc.live_stream import LiveStream
from ext_proc.openai.paths import Operation
from ext_proc.transport.origin import OriginServer
from tests.harness.plain import PLAIN
from tests.unit.ext_proc.exchanges import HELLO, exchange, head
from tests.unit.ext_proc.test_continuation import Provider
from tests.unit.ext_proc.test_flights import DONE, USAGE, event

OWN = Follower(head({"x-mine": "yes"}), ("authorization",), usage=False)
ASKING = Follower(head(), (), usage=True)


class Origin:
    """A served origin with one flight."""

    def __init__(self, socket: Path, provider: Provider) -> None:
        self.socket = socket
        self.flights = Flights()
        leader = exchange(document={**HELLO, "stream": True})
        leader.forwarded = Forward("route", body=b"asked with usage")
        self.live = LiveStream(Operation.CHAT)
        self.flight: Flight = self.flights.open(b"k", leader, self.live)
        self.flight.backend = "b"
        self.server = OriginServer(self.flights, provider, socket, structlog.get_logger())
        by_socket = httpx.AsyncHTTPTransport(uds=str(socket), verify=PLAIN)
        self.client = httpx.AsyncClient(transport=by_socket, timeout=5)

    def request(self, follower: Follower = ASKING, named: str | None = None) -> httpx.Request:
        """Return the request of a follower that is expected, or one that names something else."""
        if named is None:
            named = f"{self.flight.number}.{self.flights.expect(self.flight, follower)}"
        return httpx.Request("POST", "http://o/v1/chat/completions", headers={"x-outrigger-flight": named})

    async def followed(self, follower: Follower = ASKING) -> httpx.Response:
        """Follow to the end."""
        return await self.client.send(self.request(follower))


@asynccontextmanager
async def serving(provider: Provider | None = None) -> AsyncIterator[Origin]:
    """Serve an origin."""
    with TemporaryDirectory(prefix="or-") as folder:
        origin = Origin(Path(folder) / "o.sock", provider or Provider(refused=CallFailed("nobody")))
        await origin.server.start()
        try:
            yield origin
        finally:
            await origin.server.stop()
            await origin.client.aclose()


async def gone(origin: Origin, left: int = 0) -> None:
    """Wait until nobody follows any more, or only `left`."""
    async with asyncio.timeout(2):
        while origin.flight.followers > left:  # noqa: ASYNC110 - nobody tells a test
            await asyncio.sleep(0.005)


async def test_a_follower_hears_what_was_said_and_then_each_part() -> None:
    """With the leader's Backend; the connection can be used again."""
    async with serving() as origin:
        origin.live.append(event("a"))
        response = await origin.client.send(origin.request(), stream=True)
        assert response.status_code == 200
        assert response.headers["content-type"].startswith("text/event-stream")
        assert response.headers["x-outrigger-backend"] == "b"
        parts = response.aiter_raw()
        assert await anext(parts) == event("a")
        for text in "bc":
            origin.live.append(event(text))
            assert await anext(parts) == event(text)
        origin.live.end(whole=True)
        assert [part async for part in parts] == []
        await response.aclose()
        again = await origin.followed(OWN)
        assert again.content == event("a") + event("b") + event("c")
        await gone(origin)


async def test_a_hundred_followers_hear_the_same() -> None:
    """At the same moment, with and without the usage."""
    async with serving() as origin:
        following = [asyncio.create_task(origin.followed((ASKING, OWN)[n % 2])) for n in range(100)]
        await asyncio.sleep(0)
        for text in "abc":
            origin.live.append(event(text))
            await asyncio.sleep(0.01)
        origin.live.append(USAGE + DONE)
        origin.live.end(whole=True)
        said = event("a") + event("b") + event("c")
        bodies = [response.content for response in await asyncio.gather(*following)]
        assert bodies == [said + USAGE + DONE, said + DONE] * 50


async def test_a_stream_that_is_cut_is_cut() -> None:
    """After what came, and without an end."""
    async with serving() as origin:
        origin.live.append(event("a"))
        response = await origin.client.send(origin.request(), stream=True)
        parts = response.aiter_raw()
        assert await anext(parts) == event("a")
        origin.flights.release(origin.flight)
        with pytest.raises(httpx.RemoteProtocolError):
            await anext(parts)
        await gone(origin)
        assert origin.flights.numbered(origin.flight.number) is None


@pytest.mark.parametrize("named", ["", "x", "1", "1.", "1.x", "999.1", "1.999"])
async def test_whom_nobody_expects_is_hung_up_on(named: str) -> None:
    """Envoy then says 502 in its own words."""
    async with serving() as origin:
        with pytest.raises(httpx.RemoteProtocolError):
            await origin.client.send(origin.request(named=named))
        assert origin.flight.followers == 0


async def test_what_is_no_http_is_hung_up_on() -> None:
    """And told to the log."""
    async with serving() as origin:
        reader, writer = await asyncio.open_unix_connection(str(origin.socket))
        with capture_logs() as logs:
            writer.write(b"\x16\x03\x01 nonsense\r\n\r\n")
            assert await reader.read() == b""
        writer.close()
        assert [entry["log_level"] for entry in logs] == ["error"]


@pytest.mark.parametrize("whole", [True, False])
async def test_a_flight_that_ends_with_nothing_said_is_asked_again_by_each(whole: bool) -> None:
    """The leader's question, the follower's own headers; the answer as it comes, the usage taken out."""
    stream = (b"Content-Type", b"text/event-stream"), (b"Set-Cookie", b"a=1"), (b"set-cookie", b"b=2")
    provider = Provider(
        headers={"content-type": "text/event-stream"},
        raw=[*stream, (b"transfer-encoding", b"chunked")],
        said=[event("a", usage=None), USAGE, DONE],
    )
    async with serving(provider) as origin:
        following = asyncio.create_task(origin.followed(OWN))
        asking = asyncio.create_task(origin.followed(ASKING))
        await asyncio.sleep(0.05)
        if whole:
            origin.live.end(whole=True)
        origin.flights.release(origin.flight)
        response = await following
        assert response.headers.get_list("set-cookie") == ["a=1", "b=2"]
        assert response.content == event("a") + DONE
        assert (await asking).content == event("a", usage=None) + USAGE + DONE
    sent = {request.headers.get("x-mine"): (forward, body) for request, forward, body in provider.calls}
    assert sent["yes"] == (
        Forward("route", body=b"asked with usage", remove=("authorization",)),
        origin.flight.leader.body,
    )
    assert provider.ended == 2


async def test_an_error_of_ones_own_call_passes() -> None:
    """Status, headers and body."""
    provider = Provider(
        429, {"content-type": "application/json"}, [b'{"error": 1}'], [(b"retry-after", b"7")]
    )
    async with serving(provider) as origin:
        origin.live.end(whole=False)
        response = await origin.followed(OWN)
        assert (response.status_code, response.headers["retry-after"]) == (429, "7")
        assert response.content == b'{"error": 1}'


async def test_nobody_asks_as_json_for_one_that_wants_a_stream() -> None:
    """A leader that wants JSON took the place of one that streamed: its question is not the follower's."""
    async with serving() as origin:
        origin.flight.leader = exchange()
        origin.flight.leader.forwarded = Forward("route")
        origin.live.end(whole=False)
        with pytest.raises(httpx.RemoteProtocolError):
            await origin.followed()


async def test_a_call_of_ones_own_that_fails_is_hung_up_on() -> None:
    """There is nothing to say."""
    async with serving() as origin:
        origin.live.end(whole=False)
        with pytest.raises(httpx.RemoteProtocolError):
            await origin.followed()


@pytest.mark.parametrize("phase", ["silence", "stream", "alone"])
async def test_a_follower_that_leaves_is_counted_out(phase: str) -> None:
    """In every phase; a call of its own is ended."""
    provider = Provider(holds=True)
    async with serving(provider) as origin:
        if phase == "stream":
            origin.live.append(event("a"))
        elif phase == "alone":
            origin.live.end(whole=False)
        following = asyncio.create_task(origin.followed())
        async with asyncio.timeout(2):
            while origin.flight.boarding or not origin.flight.followers:  # noqa: ASYNC110
                await asyncio.sleep(0.005)
        await asyncio.sleep(0.05)
        following.cancel()
        await gone(origin)
        assert provider.ended == len(provider.calls) == (1 if phase == "alone" else 0)


async def test_a_reader_that_does_not_read_holds_nobody_up() -> None:
    """And what waits for it is what the flight holds anyway, and a socket's buffer."""
    async with serving() as origin:
        reader, writer = await asyncio.open_unix_connection(str(origin.socket), limit=1024)
        named = f"{origin.flight.number}.{origin.flights.expect(origin.flight, ASKING)}"
        writer.write(f"POST / HTTP/1.1\r\nhost: o\r\nx-outrigger-flight: {named}\r\n\r\n".encode())
        quick = asyncio.create_task(origin.followed())
        for _ in range(64):
            origin.live.append(event("x" * 100_000))
            await asyncio.sleep(0)
        origin.live.end(whole=True)
        assert len((await quick).content) > 6_400_000
        await gone(origin, left=1)
        await asyncio.sleep(0.05)
        assert origin.flight.followers == 1
        writer.close()
        await gone(origin)
        del reader


async def test_stopping_ends_everything_in_silence() -> None:
    """Those who follow are cut, idle connections closed; no traceback is written."""
    async with serving() as origin:
        origin.live.append(event("a"))
        origin.live.end(whole=True)
        await origin.followed()
        held = origin.flights.open(b"other", exchange(), LiveStream(Operation.CHAT))
        named = f"{held.number}.{origin.flights.expect(held, ASKING)}"
        following = asyncio.create_task(origin.client.send(origin.request(named=named)))
        await asyncio.sleep(0.05)
        errors: list[dict[str, object]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: errors.append(context))
        await origin.server.stop()
        with pytest.raises(httpx.RemoteProtocolError):
            await following
        await asyncio.sleep(0)
        assert errors == []
        assert held.followers == 0
        assert not origin.socket.exists()


async def test_the_followers_of_a_leader_that_was_refused_are_refused_alike() -> None:
    """A limit may have been reached while they came; nobody is left without an answer."""
    async with serving() as origin:
        leader = origin.flight.leader
        leader.forwarded = None
        leader.metered = Metered((), refused=(429, (("retry-after", "7"),), b'{"error": {}}'))
        following = asyncio.create_task(origin.followed())
        async with asyncio.timeout(2):
            while not origin.flight.followers:  # noqa: ASYNC110 - nobody tells a test
                await asyncio.sleep(0.005)
        origin.flights.release(origin.flight)
        answer = await following
    assert (answer.status_code, answer.headers["retry-after"], answer.content) == (429, "7", b'{"error": {}}')
