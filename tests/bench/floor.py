"""The floor's ext_proc server: `python -m tests.bench.floor SOCKET pass|answer`.

It sends the messages that the product sends and decides nothing. `pass` is the shape of a pass-through chat
(four messages, JSON buffered by mode override), `answer` that of a cache hit (answered at the body).
"""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import AsyncIterator

import grpc
import uvloop
from envoy.extensions.filters.http.ext_proc.v3 import processing_mode_pb2 as modes
from envoy.service.ext_proc.v3 import external_processor_pb2 as ext_proc
from envoy.service.ext_proc.v3 import external_processor_pb2_grpc as ext_proc_grpc
from envoy.type.v3 import http_status_pb2

from tests.bench.upstream import COMPLETION

GRPC_OPTIONS = [
    ("grpc.max_receive_message_length", 64 * 1024 * 1024),
    ("grpc.max_send_message_length", 64 * 1024 * 1024),
    ("grpc.server.max_pending_requests", 100_000),
    ("grpc.server.max_pending_requests_hard_limit", 200_000),
    ("grpc.max_concurrent_streams", 100_000),
]

_MODE = modes.ProcessingMode
_OVERRIDE = _MODE(
    request_header_mode=_MODE.SEND,
    response_header_mode=_MODE.SEND,
    request_body_mode=_MODE.BUFFERED,
    response_body_mode=_MODE.BUFFERED,
    request_trailer_mode=_MODE.SKIP,
    response_trailer_mode=_MODE.SKIP,
)
OVERRIDE_REPLY = ext_proc.ProcessingResponse(
    response_headers=ext_proc.HeadersResponse(), mode_override=_OVERRIDE
)
REPLIES = {
    "request_headers": ext_proc.ProcessingResponse(request_headers=ext_proc.HeadersResponse()),
    "request_body": ext_proc.ProcessingResponse(request_body=ext_proc.BodyResponse()),
    "response_headers": OVERRIDE_REPLY,
    "response_body": ext_proc.ProcessingResponse(response_body=ext_proc.BodyResponse()),
}
_NO_BODY = ext_proc.ProcessingResponse(response_headers=ext_proc.HeadersResponse())
ANSWER = ext_proc.ProcessingResponse(
    immediate_response=ext_proc.ImmediateResponse(
        status=http_status_pb2.HttpStatus(code=200), body=COMPLETION.encode()
    )
)


class Floor(ext_proc_grpc.ExternalProcessorServicer):  # type: ignore[misc]
    """Replies with the same message each time. `answers`: at the request's body, itself."""

    def __init__(self, answers: bool) -> None:
        self._at_body = ANSWER if answers else REPLIES["request_body"]

    async def Process(
        self, requests: AsyncIterator[ext_proc.ProcessingRequest], context: object
    ) -> AsyncIterator[ext_proc.ProcessingResponse]:
        """Serve one HTTP request."""
        async for request in requests:
            kind = request.WhichOneof("request")
            if kind == "request_body":
                yield self._at_body
            elif kind == "response_headers" and not _is_json(request.response_headers):
                yield _NO_BODY
            else:
                yield REPLIES[kind]


def _is_json(headers: ext_proc.HttpHeaders) -> bool:
    return any(
        header.key == "content-type" and header.raw_value.startswith(b"application/json")
        for header in headers.headers.headers
    )


async def serve(socket_path: str, answers: bool) -> None:
    """Serve until SIGTERM."""
    server = grpc.aio.server(options=GRPC_OPTIONS)
    ext_proc_grpc.add_ExternalProcessorServicer_to_server(Floor(answers), server)
    server.add_insecure_port(f"unix:{socket_path}")
    await server.start()
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    print("ready", flush=True)
    await stopped.wait()
    await server.stop(0)


if __name__ == "__main__":
    uvloop.run(serve(sys.argv[1], sys.argv[2] == "answer"))
