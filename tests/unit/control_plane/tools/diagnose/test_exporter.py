"""Metrics of an application's own calls."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from itertools import count

import httpx
import pytest
from prometheus_client import CollectorRegistry

from control_plane.tools.diagnose.exporter import CallMetrics, model_of

BODY = {"model": "gpt-4o", "messages": []}


class Pieces(httpx.SyncByteStream, httpx.AsyncByteStream):
    """A stream of given pieces that may break."""

    def __init__(self, *pieces: bytes, error: Exception | None = None) -> None:
        self._pieces = pieces
        self._error = error

    def __iter__(self) -> Iterator[bytes]:
        yield from self._pieces
        if self._error is not None:
            raise self._error

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self:
            yield piece


@pytest.fixture
def registry() -> CollectorRegistry:
    """Return an empty registry."""
    return CollectorRegistry()


@pytest.fixture
def metrics(registry: CollectorRegistry) -> CallMetrics:
    """Return metrics whose clock goes a second a look."""
    ticks = count()
    return CallMetrics(registry, most_models=2, clock=lambda: float(next(ticks)))


def client(metrics: CallMetrics, answer: Callable[[httpx.Request], httpx.Response]) -> httpx.Client:
    """Return a watched client that is answered by a function."""
    return metrics.watch(httpx.Client(transport=httpx.MockTransport(answer), base_url="http://h"))


def later(metrics: CallMetrics, answer: Callable[[httpx.Request], httpx.Response]) -> httpx.AsyncClient:
    """Return the same as an asynchronous client."""
    return metrics.watch(httpx.AsyncClient(transport=httpx.MockTransport(answer), base_url="http://h"))


def counted(registry: CollectorRegistry, status: str) -> float:
    """Return how many calls had that status."""
    return registry.get_sample_value("openai_request_total", {"status": status}) or 0


def durations(registry: CollectorRegistry, model: str) -> float:
    """Return how many durations of that model there are."""
    return registry.get_sample_value("openai_request_duration_count", {"model": model}) or 0


def test_whole_answers(registry: CollectorRegistry, metrics: CallMetrics) -> None:
    """One count by status and one duration by model a call, whatever the status."""
    statuses = iter([200, 200, 429])
    calls = client(metrics, lambda _: httpx.Response(next(statuses), json={}))
    for _ in range(3):
        calls.post("/v1/chat/completions", json=BODY)
    assert (counted(registry, "200"), counted(registry, "429")) == (2, 1)
    assert registry.get_sample_value("openai_request_duration_sum", {"model": "gpt-4o"}) == 3


async def test_whole_answers_of_an_asynchronous_client(
    registry: CollectorRegistry, metrics: CallMetrics
) -> None:
    """The same."""
    async with later(metrics, lambda _: httpx.Response(200, json={})) as calls:
        await calls.post("/v1/chat/completions", json=BODY)
    assert (counted(registry, "200"), durations(registry, "gpt-4o")) == (1, 1)


def refuse(request: httpx.Request) -> httpx.Response:
    """Answer like a port where nobody listens."""
    raise httpx.ConnectError("refused", request=request)


async def test_no_answer(registry: CollectorRegistry, metrics: CallMetrics) -> None:
    """What fails before there is a response is `aborted`; the error reaches the caller."""
    with pytest.raises(httpx.ConnectError):
        client(metrics, refuse).post("/v1/chat/completions", json=BODY)
    with pytest.raises(httpx.ConnectError):
        await later(metrics, refuse).post("/v1/chat/completions", json=BODY)
    assert counted(registry, "aborted") == 2


@pytest.mark.parametrize(
    ("stream", "read", "status"),
    [
        (Pieces(b"data: 1\n\n", b"data: 2\n\n"), 9, "200"),
        (Pieces(b"data: 1\n\n", b"data: [DONE]\n\n", b"\n"), 2, "200"),
        (Pieces(b"data: 1\n\n", b"data: 2\n\n"), 1, "aborted"),
        (Pieces(b"data: 1\n\n"), 0, "aborted"),
        (Pieces(b"data: 1\n\n", error=httpx.ReadError("cut")), 9, "aborted"),
    ],
    ids=["to its end", "until it says it is done", "left early", "not read", "broken off"],
)
async def test_streams(
    registry: CollectorRegistry, metrics: CallMetrics, stream: Pieces, read: int, status: str
) -> None:
    """A stream counts when it is closed, once, by how it ended; both kinds of client agree."""
    calls = client(metrics, lambda _: httpx.Response(200, stream=stream))
    try:
        with calls.stream("POST", "/v1/chat/completions", json=BODY) as response:
            for number, _ in enumerate(response.iter_bytes() if read else (), 1):
                if number == read:
                    break
    except httpx.ReadError:
        pass
    try:
        async with (
            later(metrics, lambda _: httpx.Response(200, stream=stream)) as more,
            more.stream("POST", "/v1/chat/completions", json=BODY) as answer,
        ):
            number = 0
            async for _ in answer.aiter_bytes() if read else Pieces():
                number += 1
                if number == read:
                    break
    except httpx.ReadError:
        pass
    assert counted(registry, status) == 2
    assert durations(registry, "gpt-4o") == 2


async def test_a_cancelled_reader_is_no_success(registry: CollectorRegistry, metrics: CallMetrics) -> None:
    """Cancelled while it waits for more, the call is `aborted`."""

    class Silent(httpx.AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            yield b"data: 1\n\n"
            await asyncio.Event().wait()

    async def read() -> None:
        async with (
            later(metrics, lambda _: httpx.Response(200, stream=Silent())) as calls,
            calls.stream("POST", "/v1/chat/completions", json=BODY) as response,
        ):
            async for _ in response.aiter_bytes():
                pass

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await read()
    assert (counted(registry, "aborted"), counted(registry, "200")) == (1, 0)


def test_models_are_bounded(registry: CollectorRegistry, metrics: CallMetrics) -> None:
    """Beyond the most, a model is `other`; known ones stay."""
    calls = client(metrics, lambda _: httpx.Response(200, json={}))
    for model in ("a", "b", "c", "d", "a"):
        calls.post("/v1/embeddings", json={"model": model})
    assert [durations(registry, model) for model in ("a", "b", "c", "other")] == [2, 1, 0, 2]


def pieces() -> Iterator[bytes]:
    """Yield a body piece by piece."""
    yield b"{}"


@pytest.mark.parametrize(
    ("request_", "model"),
    [
        (httpx.Request("POST", "http://h", json=BODY), "gpt-4o"),
        (httpx.Request("GET", "http://h"), "none"),
        (httpx.Request("POST", "http://h", content=b"[1]"), "none"),
        (httpx.Request("POST", "http://h", json={"model": 7}), "none"),
        (httpx.Request("POST", "http://h", content=pieces()), "none"),
    ],
    ids=["named", "no body", "a list", "a number", "a stream"],
)
def test_model_of_a_request(request_: httpx.Request, model: str) -> None:
    """From the body, if it is one that can be read."""
    assert model_of(request_) == model
