"""The ext_proc service: one gRPC stream an HTTP request, message in, reply out.

Protocol: envoy/service/ext_proc/v3/external_processor.proto. What goes wrong in here ends the stream with an
error, and Envoy then fails open or closed as it is told to.
"""

from __future__ import annotations

from typing import Any

import grpc
from envoy.service.ext_proc.v3.external_processor_pb2 import ProcessingRequest
from structlog.typing import FilteringBoundLogger

from ext_proc.exchange import Exchange, Forward
from ext_proc.pipeline import NoSnapshot, Pipeline
from ext_proc.transport import codec

SERVICE = "envoy.service.ext_proc.v3.ExternalProcessor"


class UnexpectedMessage(RuntimeError):
    """Envoy sent a message that its configuration should not let it send."""


class ExternalProcessor:
    """Serves Envoy's `Process` streams with a pipeline."""

    def __init__(self, pipeline: Pipeline, log: FilteringBoundLogger) -> None:
        self._pipeline = pipeline
        self._log = log

    def handler(self) -> grpc.GenericRpcHandler:
        """Return what a grpc.aio server is given to serve this."""
        method = grpc.stream_stream_rpc_method_handler(
            self.process,
            request_deserializer=codec.decode_request,
            response_serializer=None,  # the codec returns bytes
        )
        return grpc.method_handlers_generic_handler(SERVICE, {"Process": method})

    async def process(self, _requests: object, context: Any) -> None:
        """Serve one HTTP request from its headers to its end."""
        try:
            await self._converse(context)
        except NoSnapshot as error:
            await context.abort(grpc.StatusCode.UNAVAILABLE, str(error))
        except Exception as error:
            # Whether such an exchange fails open is the policy's to say and Envoy's to do. A client that has
            # gone is no failure: that is a cancellation, which is no Exception.
            self._log.error("exchange failed in the processor", error=type(error).__name__, exc_info=True)
            await context.abort(grpc.StatusCode.INTERNAL, "the processor failed on this exchange")

    async def _converse(self, context: Any) -> None:
        pipeline = self._pipeline
        message = await context.read()
        if message is grpc.aio.EOF or message.WhichOneof("request") != "request_headers":
            # Envoy has answered by itself before it asked (an upgrade, say) and only shows what it said: the
            # stream's end lets that pass.
            return
        exchange = pipeline.begin(codec.request_head(message.request_headers))
        try:
            reply, goes_on = await self._on_request_headers(exchange, message)
            await context.write(reply)
            while goes_on and (message := await context.read()) is not grpc.aio.EOF:
                kind = message.WhichOneof("request")
                if kind == "request_body":
                    reply, goes_on = await self._on_request_body(exchange, message.request_body.body)
                elif kind == "response_headers":
                    reply = self._on_response_headers(exchange, message)
                elif kind == "response_body":
                    metadata = pipeline.response_body(exchange, message.response_body.body)
                    reply = codec.response_body_seen(metadata)
                else:
                    raise UnexpectedMessage(f"Envoy sent {kind}, which this processor does not ask for")
                await context.write(reply)
        finally:
            pipeline.end(exchange)

    async def _on_request_headers(self, exchange: Exchange, message: ProcessingRequest) -> tuple[bytes, bool]:
        decision = await self._pipeline.request_head(exchange)
        if decision is None:
            if not message.request_headers.end_of_stream:
                return codec.WANT_BODY, True
            # No body will come; the parser says what is wrong with that.
            decision = await self._pipeline.request_body(exchange, b"")
        if isinstance(decision, Forward):
            return codec.forward_on_headers(decision), decision.wants_response
        return codec.answer(decision), False

    async def _on_request_body(self, exchange: Exchange, body: bytes) -> tuple[bytes, bool]:
        decision = await self._pipeline.request_body(exchange, body)
        if isinstance(decision, Forward):
            # A stream that is closed in order tells Envoy to go on without us.
            return codec.forward_on_body(decision), decision.wants_response
        return codec.answer(decision), False

    def _on_response_headers(self, exchange: Exchange, message: ProcessingRequest) -> bytes:
        self._pipeline.routed(exchange)
        status, headers = codec.response_head(message.response_headers)
        wanted = self._pipeline.response_head(exchange, status, headers)
        return codec.WANT_RESPONSE_BODY if wanted else codec.RESPONSE_HEADERS_SEEN
