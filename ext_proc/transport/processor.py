"""The ext_proc service: one gRPC stream an HTTP request, message in, reply out.

Protocol: envoy/service/ext_proc/v3/external_processor.proto. What goes wrong in here ends the stream with an
error, and Envoy then fails open or closed as it is told to.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from envoy.service.ext_proc.v3.external_processor_pb2 import HttpBody, ProcessingRequest
from structlog.typing import FilteringBoundLogger

from ext_proc.contract import headers as names
from ext_proc.exchange import REFUSED, Answer, Exchange, Forward, Wish
from ext_proc.pipeline import NoSnapshot, Pipeline
from ext_proc.redaction.answers import restore_body
from ext_proc.transport import codec
from ext_proc.transport.stream import Abort, Status, Stream

SERVICE: Final = "envoy.service.ext_proc.v3.ExternalProcessor"
METHOD: Final = f"/{SERVICE}/Process"
OK: Final = 200
TOO_MANY: Final = 429


_WISHES: Final = {
    Wish.NOTHING: codec.RESPONSE_HEADERS_SEEN,
    Wish.WHOLE: codec.WANT_RESPONSE_BODY,
    Wish.CHUNKS: codec.WANT_RESPONSE_CHUNKS,
}


class UnexpectedMessage(RuntimeError):
    """Envoy sent a message that its configuration should not let it send."""


class ExternalProcessor:
    """Serves Envoy's `Process` streams with a pipeline."""

    def __init__(self, pipeline: Pipeline, log: FilteringBoundLogger) -> None:
        self._pipeline = pipeline
        self._log = log

    async def process(self, stream: Stream) -> None:
        """Serve one HTTP request from its headers to its end.

        Raises:
            Abort: it cannot be decided; Envoy then fails open or closed as it is told to.
        """
        try:
            await self._converse(stream)
        except NoSnapshot as error:
            raise Abort(Status.UNAVAILABLE, str(error)) from None
        except Exception as error:
            # Whether such an exchange fails open is the policy's to say and Envoy's to do. A client that has
            # gone is no failure: that is a cancellation, which is no Exception.
            self._log.error("exchange failed in the processor", error=type(error).__name__, exc_info=True)
            raise Abort(Status.INTERNAL, "the processor failed on this exchange") from None

    async def _converse(self, stream: Stream) -> None:
        pipeline = self._pipeline
        first = await stream.read()
        if first is None:
            return
        message = codec.decode_request(first)
        if message.WhichOneof("request") != "request_headers":
            # Envoy has answered by itself before it asked (an upgrade, say) and only shows what it said: the
            # stream's end lets that pass.
            return
        exchange = pipeline.begin(codec.request_head(message.request_headers))
        exchange.ask_for_time = partial(stream.write, codec.MORE_TIME)
        try:
            reply, goes_on = await self._on_request_headers(exchange, message)
            await stream.write(reply)
            while goes_on and (received := await stream.read()) is not None:
                message = codec.decode_request(received)
                kind = message.WhichOneof("request")
                if kind == "request_body":
                    reply, goes_on = await self._on_request_body(exchange, message.request_body.body)
                elif kind == "response_headers":
                    reply, goes_on = self._on_response_headers(exchange, message)
                elif kind == "response_body":
                    reply = self._on_response_body(exchange, message.response_body)
                elif kind == "response_trailers":
                    if exchange.recorder is not None:
                        pipeline.response_chunk(exchange, b"", end=True)
                    reply = codec.RESPONSE_TRAILERS_SEEN
                else:
                    raise UnexpectedMessage(f"Envoy sent {kind}, which this processor does not ask for")
                await stream.write(reply)
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

    def _on_response_headers(self, exchange: Exchange, message: ProcessingRequest) -> tuple[bytes, bool]:
        self._pipeline.routed(exchange)
        received = message.response_headers
        status, headers = codec.response_head(received)
        if exchange.hides_usage and (status != OK or headers.get(names.ATTEMPTS) != "1"):
            exchange.hear_of_usage(codec.usage_refused_by(message))
        if exchange.forwarded is not None and exchange.forwarded.plan is not None:
            exchange.stand_in(codec.stand_in(message))
        if exchange.stopwatch is not None:
            exchange.stopwatch.came()
        if status == TOO_MANY:
            exchange.used_up = codec.is_used_up(message)
        wish = self._pipeline.response_head(exchange, status, headers, alone=received.end_of_stream)
        if isinstance(wish, Answer):
            return codec.answer(wish), False
        reply = _WISHES[wish]
        if exchange.stopwatch is not None:
            reply = codec.with_headers(reply, exchange.stopwatch.told())
        if exchange.metered is not None:
            return codec.with_headers(reply, exchange.metered.told), True
        return reply, True

    def _on_response_body(self, exchange: Exchange, received: HttpBody) -> bytes:
        if exchange.recorder is None:
            numbers = self._pipeline.response_body(exchange, received.body)
            if exchange.masks is None:
                return codec.response_body_seen(numbers)
            return codec.response_body_restored(numbers, restore_body(exchange.masks, received.body))
        visible = self._pipeline.response_chunk(exchange, received.body, end=received.end_of_stream)
        seen = codec.response_chunk_seen(visible)
        # Protobuf merges what is said twice of one message.
        return seen + codec.response_body_seen(REFUSED) if exchange.refused else seen
