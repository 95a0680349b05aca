"""OTLP traces, received by a real OTLP server in the test."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import grpc
import pytest
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2
from opentelemetry.proto.trace.v1 import trace_pb2

from tests.e2e.documents import SMALL_MESH
from tests.harness.mesh import Mesh
from tests.harness.raw_http import post
from tests.harness.rude import RudeProvider, reply

QUESTION = "a question that nobody may read in a trace"
CHAT = {"model": "plain", "messages": [{"role": "user", "content": QUESTION}]}
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = "00f067aa0ba902b7"


SERVICE = "opentelemetry.proto.collector.trace.v1.TraceService"
# The stubs that xds-protos brings are of the time when this field had another name.
SCOPED = trace_pb2.ResourceSpans.DESCRIPTOR.fields_by_number[2].name


class Collector:
    """Keeps every span that it is sent."""

    def __init__(self) -> None:
        self.spans: list[Any] = []
        self.arrived = asyncio.Condition()

    async def export(self, request: Any, context: object) -> Any:
        """Receive a batch."""
        async with self.arrived:
            for resource in request.resource_spans:
                for scope in getattr(resource, SCOPED):
                    self.spans += scope.spans
            self.arrived.notify_all()
        return trace_service_pb2.ExportTraceServiceResponse()

    async def wait_for(self, count: int) -> list[Any]:
        """Return the spans once there are `count` of them."""
        async with asyncio.timeout(15), self.arrived:
            await self.arrived.wait_for(lambda: len(self.spans) >= count)
            return list(self.spans)


@pytest.fixture
async def collector() -> AsyncIterator[tuple[Collector, int]]:
    """A running OTLP collector and its port."""
    server = grpc.aio.server()
    service = Collector()
    method = grpc.unary_unary_rpc_method_handler(
        service.export,
        request_deserializer=trace_service_pb2.ExportTraceServiceRequest.FromString,
        response_serializer=trace_service_pb2.ExportTraceServiceResponse.SerializeToString,
    )
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, {"Export": method}),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    yield service, port
    await server.stop(0)


def attributes(span: Any) -> dict[str, Any]:
    """Return a span's attributes as plain values."""
    return {pair.key: getattr(pair.value, pair.value.WhichOneof("value")) for pair in span.attributes}


async def test_each_call_is_a_span(
    collector: tuple[Collector, int], rude: RudeProvider, script: str, start_mesh: Callable[..., Mesh]
) -> None:
    """Spans have GenAI attributes, the caller's span as parent, an error status on failure, no prompt."""
    service, port = collector
    environment = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{port}",
        "OTEL_EXPORTER_OTLP_INSECURE": "true",
        "OTEL_BSP_SCHEDULE_DELAY": "200",
    }
    documents = SMALL_MESH.format(rude=rude.port, fail_open="true")
    mesh = await asyncio.to_thread(start_mesh, documents, environment=environment)
    parent = {"traceparent": f"00-{TRACE}-{PARENT}-01"}
    assert (await post(mesh.proxy_port, CHAT, parent)).status == 200
    failing = {**rude.script(script, reply(400, b'{"error": {}}')), **parent}
    assert (await post(mesh.proxy_port, CHAT, failing)).status == 400
    spans = await service.wait_for(2)
    good, bad = sorted(spans, key=lambda span: span.start_time_unix_nano)
    for span in (good, bad):
        assert span.trace_id.hex() == TRACE
        assert span.parent_span_id.hex() == PARENT
        assert span.end_time_unix_nano > span.start_time_unix_nano
        assert QUESTION not in str(span)
    found = attributes(good)
    assert found["gen_ai.operation.name"] == "chat"
    assert found["gen_ai.request.model"] == "plain"
    assert found["gen_ai.usage.input_tokens"] == 9
    assert found["gen_ai.usage.output_tokens"] == 3
    assert bad.status.code == 2


async def test_a_dead_collector_harms_nobody(rude: RudeProvider, start_mesh: Callable[..., Mesh]) -> None:
    """With nobody at the endpoint calls go on as ever."""
    environment = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9"}
    documents = SMALL_MESH.format(rude=rude.port, fail_open="true")
    mesh = await asyncio.to_thread(start_mesh, documents, environment=environment)
    answers = await asyncio.gather(*(post(mesh.proxy_port, CHAT) for _ in range(20)))
    assert {answer.status for answer in answers} == {200}
