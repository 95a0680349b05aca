"""The ext_proc service over real gRPC, a client in Envoy's place; over each transport alike."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import grpc
import orjson
import pytest
import structlog
from envoy.config.core.v3.base_pb2 import HeaderMap, HeaderValue
from envoy.service.ext_proc.v3.external_processor_pb2 import (
    HttpBody,
    HttpHeaders,
    ProcessingRequest,
    ProcessingResponse,
)
from envoy.service.ext_proc.v3.external_processor_pb2_grpc import ExternalProcessorStub
from grpc_health.v1 import health_pb2, health_pb2_grpc

from ext_proc.contract.snapshot import PolicyLayer
from ext_proc.exchange import Answer, Exchange, Forward
from ext_proc.openai.ratelimits import RateLimitHint
from ext_proc.pipeline import PassingStage, Pipeline
from ext_proc.settings import Transport
from ext_proc.snapshots import SnapshotHolder
from ext_proc.transport.processor import ExternalProcessor
from ext_proc.transport.server import MAX_MESSAGE_BYTES, ProcessorServer
from ext_proc.wiring.stages import stages
from tests.unit.ext_proc.exchanges import HELLO, SHARING, Counted, caching, snapshot

CHOICES = [{"finish_reason": "stop", "message": {"content": "Hi"}}]
ANSWER = orjson.dumps({"choices": CHOICES, "usage": {"prompt_tokens": 1, "completion_tokens": 2}})


class NoQuota:
    """Is told of quotas and forgets them."""

    def observe(self, backend: str, hint: RateLimitHint) -> None:
        """Forget it."""


@dataclass
class Running:
    """A processor that is served, and what a test needs of it."""

    holder: SnapshotHolder
    channel: grpc.aio.Channel
    server: ProcessorServer

    async def call(self, *messages: ProcessingRequest) -> list[ProcessingResponse]:
        """Send messages one by one, each after the reply to the one before; return the replies."""
        stream = ExternalProcessorStub(self.channel).Process()
        replies = []
        for message in messages:
            await stream.write(message)
            reply = await stream.read()
            if reply is grpc.aio.EOF:
                break
            replies.append(reply)
        await stream.done_writing()
        return replies


def with_headers(kind: str, *, end: bool = False, **pairs: str) -> ProcessingRequest:
    """Return a headers message; `__` in a name stands for `:` and `_` for `-`."""
    named = {name.replace("__", ":").replace("_", "-"): value for name, value in pairs.items()}
    values = [HeaderValue(key=name, raw_value=value.encode()) for name, value in named.items()]
    return ProcessingRequest(**{kind: HttpHeaders(headers=HeaderMap(headers=values), end_of_stream=end)})


REQUEST = with_headers(
    "request_headers", __method="POST", __path="/v1/chat/completions", content_type="application/json"
)
BODY = ProcessingRequest(request_body=HttpBody(body=orjson.dumps(HELLO), end_of_stream=True))
RESPONSE = with_headers("response_headers", __status="200", content_type="application/json")
RESPONSE_BODY = ProcessingRequest(response_body=HttpBody(body=ANSWER, end_of_stream=True))


class Trap(PassingStage):
    """A stage with a fault in it."""

    async def on_request(self, exchange: Exchange) -> Answer | Forward | None:
        """Fail."""
        raise ZeroDivisionError


class Parking(PassingStage):
    """A stage that parks every exchange for ever, and counts who has come and gone."""

    def __init__(self) -> None:
        self.parked = asyncio.Event()
        self.ended = asyncio.Event()

    async def on_request(self, exchange: Exchange) -> Answer | Forward | None:
        """Wait for ever."""
        self.parked.set()
        await asyncio.Event().wait()
        return None

    def on_end(self, exchange: Exchange) -> None:
        """Say so."""
        self.ended.set()


async def running(transport: Transport, first: PassingStage | None = None) -> AsyncIterator[Running]:
    """Serve the real stages (after `first`) on a socket of its own."""
    holder = SnapshotHolder()
    cached = PolicyLayer("p", settings={"cache.enabled": True})
    holder.replace(snapshot(policies=(cached,)))
    real = stages(caching(1000), Counted(), NoQuota(), 0, SHARING, audit=Counted())
    pipeline = Pipeline((*([first] if first else []), *real), holder, Counted())
    with TemporaryDirectory(prefix="or-") as folder:
        socket = Path(folder) / "p.sock"
        log = structlog.get_logger()
        server = ProcessorServer(ExternalProcessor(pipeline, log), socket, log, transport)
        await server.start()
        options = (
            ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
            ("grpc.max_send_message_length", -1),
        )
        async with grpc.aio.insecure_channel(f"unix:{socket}", options=options) as channel:
            yield Running(holder, channel, server)
        await server.stop(0)


@pytest.fixture(params=list(Transport))
def transport(request: pytest.FixtureRequest) -> Transport:
    """Each transport."""
    return Transport(request.param)


@pytest.fixture
async def processor(transport: Transport) -> AsyncIterator[Running]:
    """A served processor."""
    async for served in running(transport):
        yield served


async def test_a_miss_then_a_hit(processor: Running) -> None:
    """Four messages and four replies up; the next call is answered at its body."""
    replies = await processor.call(REQUEST, BODY, RESPONSE, RESPONSE_BODY)
    kinds = [reply.WhichOneof("response") for reply in replies]
    assert kinds == ["request_headers", "request_body", "response_headers", "response_body"]
    replies = await processor.call(REQUEST, BODY)
    assert replies[1].immediate_response.status.code == 200
    assert replies[1].immediate_response.body == ANSWER


async def test_a_refusal_is_told_to_the_access_log(processor: Running) -> None:
    """Beside the answer, which passes as it is: whole, or with the end of its stream."""
    refusal = {"choices": [{"finish_reason": "content_filter", "message": {"content": "H"}}]}
    whole = ProcessingRequest(response_body=HttpBody(body=orjson.dumps(refusal), end_of_stream=True))
    told = (await processor.call(REQUEST, BODY, RESPONSE, whole))[-1]
    assert told.dynamic_metadata["outrigger"]["filtered"] == 1.0
    asked = orjson.dumps({**HELLO, "stream": True, "stream_options": {"include_usage": True}})
    body = ProcessingRequest(request_body=HttpBody(body=asked, end_of_stream=True))
    head = with_headers("response_headers", __status="200", content_type="text/event-stream")
    part = b'data: {"choices":[{"index":0,"delta":{"content":"H"},"finish_reason":"content_filter"}]}\n\n'
    parts = [
        ProcessingRequest(response_body=HttpBody(body=part)),
        ProcessingRequest(response_body=HttpBody(body=b"data: [DONE]\n\n", end_of_stream=True)),
    ]
    *_, first, last = await processor.call(REQUEST, body, head, *parts)
    assert "outrigger" not in first.dynamic_metadata
    assert last.dynamic_metadata["outrigger"]["filtered"] == 1.0
    assert not last.response_body.response.HasField("body_mutation")


async def test_a_request_without_a_body_is_answered_at_its_headers(processor: Running) -> None:
    """Nobody waits for a body that will not come."""
    end = with_headers(
        "request_headers",
        end=True,
        __method="POST",
        __path="/v1/chat/completions",
        content_type="application/json",
    )
    (reply,) = await processor.call(end)
    assert reply.immediate_response.status.code == 400


async def test_other_paths_cost_one_message(processor: Running) -> None:
    """The stream is closed after it: Envoy goes on without us."""
    stream = ExternalProcessorStub(processor.channel).Process()
    await stream.write(with_headers("request_headers", __method="GET", __path="/v1/files"))
    assert (await stream.read()).WhichOneof("response") == "request_headers"
    assert await stream.read() is grpc.aio.EOF


async def test_what_envoy_answered_before_it_asked_is_let_pass(processor: Running) -> None:
    """A stream that begins with a response ends at once and in peace: Envoy goes on, and no call failed."""
    stream = ExternalProcessorStub(processor.channel).Process()
    await stream.write(with_headers("response_headers", __status="400"))
    assert await stream.read() is grpc.aio.EOF
    assert await stream.code() is grpc.StatusCode.OK


async def test_a_whole_32_mib_body_fits(processor: Running) -> None:
    """One message may hold it."""
    text = "x" * (32 * 1024 * 1024 - 200)
    large = orjson.dumps({"model": "m", "messages": [{"role": "user", "content": text}]})
    replies = await processor.call(REQUEST, ProcessingRequest(request_body=HttpBody(body=large)))
    assert replies[1].WhichOneof("response") == "request_body"


async def test_a_fault_ends_the_stream_with_an_error(transport: Transport) -> None:
    """So that Envoy fails open or closed; the exchange is closed and lets its snapshot go."""
    async for processor in running(transport, Trap()):
        with pytest.raises(grpc.aio.AioRpcError) as failed:
            await processor.call(REQUEST, BODY)
        assert failed.value.code() is grpc.StatusCode.INTERNAL
        assert processor.holder.current is not None
        assert processor.holder.current.held == 0


async def test_a_client_that_goes_away_ends_a_parked_exchange(transport: Transport) -> None:
    """The stage is cancelled, the exchange ends once."""
    stage = Parking()
    async for processor in running(transport, stage):
        stream = ExternalProcessorStub(processor.channel).Process()
        await stream.write(REQUEST)
        await stream.read()
        await stream.write(BODY)
        await asyncio.wait_for(stage.parked.wait(), 5)
        stream.cancel()
        await asyncio.wait_for(stage.ended.wait(), 5)


async def test_a_thousand_at_once_each_get_their_own_answer(processor: Running) -> None:
    """No stream is refused and no answer crosses over."""

    async def ask(number: int) -> bool:
        body = orjson.dumps({**HELLO, "seed": number})
        answer = orjson.dumps({"choices": CHOICES, "id": number})
        request = ProcessingRequest(request_body=HttpBody(body=body))
        response = ProcessingRequest(response_body=HttpBody(body=answer))
        await processor.call(REQUEST, request, RESPONSE, response)
        replies = await processor.call(REQUEST, request)
        return bool(orjson.loads(replies[1].immediate_response.body)["id"] == number)

    # What is new has a quarter of the store's 1,000: the answers are asked for right after they were given.
    for start in range(0, 1000, 100):
        assert all(await asyncio.gather(*(ask(number) for number in range(start, start + 100))))


async def test_health_follows_serve(processor: Running) -> None:
    """Not serving until it is said; Envoy sends nothing before."""
    stub = health_pb2_grpc.HealthStub(processor.channel)
    before = await stub.Check(health_pb2.HealthCheckRequest())
    assert before.status == health_pb2.HealthCheckResponse.NOT_SERVING
    processor.server.serve()
    after = await stub.Check(health_pb2.HealthCheckRequest())
    assert after.status == health_pb2.HealthCheckResponse.SERVING
