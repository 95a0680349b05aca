"""A processor that does as the request says: `x-test-*` headers name the route, the answer or the wait.

It runs in a process of its own, so that a test can stop or kill it for real:
`python -m tests.contract.ext_proc.agent.decider SOCKET`.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from typing import Any

import grpc
from envoy.config.core.v3 import base_pb2
from envoy.extensions.filters.http.ext_proc.v3 import processing_mode_pb2
from envoy.service.ext_proc.v3 import external_processor_pb2, external_processor_pb2_grpc
from envoy.type.v3 import http_status_pb2
from google.protobuf import duration_pb2
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

PARSED = ("/v1/chat/completions", "/v1/completions", "/v1/embeddings")
Mode = processing_mode_pb2.ProcessingMode
OPTIONS = (
    ("grpc.max_receive_message_length", 64 * 1024 * 1024),
    ("grpc.max_send_message_length", 64 * 1024 * 1024),
    ("grpc.server.max_pending_requests", 100_000),
    ("grpc.http2.max_ping_strikes", 0),
    ("grpc.server.max_pending_requests_hard_limit", 200_000),
)


def option(name: str, value: str) -> Any:
    """Return one header to set."""
    return base_pb2.HeaderValueOption(
        header=base_pb2.HeaderValue(key=name, raw_value=value.encode()),
        append_action=base_pb2.HeaderValueOption.OVERWRITE_IF_EXISTS_OR_ADD,
    )


class Decider(external_processor_pb2_grpc.ExternalProcessorServicer):  # type: ignore[misc]
    """Decides as the request says."""

    async def Process(  # noqa: N802, RUF100  (the protocol's name)
        self, requests: AsyncIterator[Any], context: grpc.aio.ServicerContext
    ) -> AsyncIterator[Any]:
        """Serve one exchange."""
        found: dict[str, str] = {}
        async for message in requests:
            kind = message.WhichOneof("request")
            if kind == "request_headers":
                found = {
                    item.key: item.raw_value.decode() for item in message.request_headers.headers.headers
                }
                answer = self._on_headers(found)
            elif kind == "request_body":
                if "x-test-park" in found:
                    yield external_processor_pb2.ProcessingResponse(
                        override_message_timeout=duration_pb2.Duration(seconds=60)
                    )
                    await asyncio.Event().wait()
                answer = external_processor_pb2.ProcessingResponse(
                    request_body=external_processor_pb2.BodyResponse(response=self._route(found))
                )
            elif kind == "response_headers":
                kinds = [
                    item.raw_value
                    for item in message.response_headers.headers.headers
                    if item.key == "content-type"
                ]
                held = any(value.startswith(b"application/json") for value in kinds)
                answer = external_processor_pb2.ProcessingResponse(
                    response_headers=external_processor_pb2.HeadersResponse(),
                    mode_override=_mode(response_body=Mode.BUFFERED if held else Mode.NONE),
                )
            else:
                answer = external_processor_pb2.ProcessingResponse(
                    response_body=external_processor_pb2.BodyResponse()
                )
            yield answer

    def _on_headers(self, found: dict[str, str]) -> Any:
        if "x-test-answer" in found:
            return external_processor_pb2.ProcessingResponse(
                immediate_response=external_processor_pb2.ImmediateResponse(
                    status=http_status_pb2.HttpStatus(code=int(found["x-test-answer"])),
                    headers=external_processor_pb2.HeaderMutation(
                        set_headers=[option("content-type", "application/json"), option("x-own", "yes")]
                    ),
                    body=b'{"own": true}',
                    details="outrigger_test",
                )
            )
        if found[":path"].partition("?")[0] in PARSED and found[":method"] == "POST":
            return external_processor_pb2.ProcessingResponse(
                request_headers=external_processor_pb2.HeadersResponse()
            )
        return external_processor_pb2.ProcessingResponse(
            request_headers=external_processor_pb2.HeadersResponse(response=self._route(found)),
            mode_override=_mode(response_body=Mode.NONE),
        )

    def _route(self, found: dict[str, str]) -> Any:
        settings = [option("x-decided", "yes")]
        if "x-test-route" in found:
            settings.append(option("x-outrigger-route", found["x-test-route"]))
        if "x-test-path" in found:
            settings.append(option(":path", found["x-test-path"]))
        return external_processor_pb2.CommonResponse(
            header_mutation=external_processor_pb2.HeaderMutation(set_headers=settings),
            clear_route_cache=True,
        )


def _mode(response_body: int) -> Any:
    return Mode(
        request_header_mode=Mode.SEND,
        request_body_mode=Mode.NONE,
        response_header_mode=Mode.SEND,
        response_body_mode=response_body,
        request_trailer_mode=Mode.SKIP,
        response_trailer_mode=Mode.SKIP,
    )


async def serve(path: str) -> None:
    """Serve on the Unix socket `path` for ever."""
    server = grpc.aio.server(options=OPTIONS)
    external_processor_pb2_grpc.add_ExternalProcessorServicer_to_server(Decider(), server)
    servicer = health.aio.HealthServicer()
    health_pb2_grpc.add_HealthServicer_to_server(servicer, server)
    await servicer.set("", health_pb2.HealthCheckResponse.SERVING)
    server.add_insecure_port(f"unix:{path}")
    await server.start()
    await server.wait_for_termination()


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1]))
