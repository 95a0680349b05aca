"""The gRPC end of the push stream: Hello in, snapshots out, answers and reports in.

Protocol: ext_proc/contract/push.proto. What is sent, and to whom, is decided by `fleet`; who may join, by
`admission`. Messages go out as bytes that were serialised once, the same for every stream.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Final, NoReturn
from urllib.parse import unquote

import grpc
from google.protobuf.message import DecodeError
from structlog.typing import FilteringBoundLogger

from control_plane.push.admission import Admission, NotAdmittedError, NotCheckedError, Pass, bearer
from control_plane.push.fleet import Fleet
from control_plane.push.listening import PushAddressError, PushTls, add_port
from control_plane.push.questions import Questions
from control_plane.push.reports import (
    MalformedReportError,
    compared_of,
    envoy_of,
    identity_of,
    releases_of,
    statistics_of,
    tiers_of,
)
from control_plane.push.sidecars import Sidecar
from ext_proc.contract import push_pb2
from ext_proc.contract.cache_wire import statistics_of as statistics_of_cache
from ext_proc.contract.uses import uses_of

__all__ = ["PushAddressError", "PushServer", "PushService"]

SERVICE: Final = "outrigger.push.v1.PolicyPush"
HELLO_WITHIN_S: Final = 10.0
MAX_MESSAGE_BYTES: Final = 64 * 1024 * 1024
MAX_REASON: Final = 2_000
NOT_ADMITTED: Final = "a valid token of a sidecar is needed: set OUTRIGGER_TOKEN or --token-file"

OPTIONS: Final[tuple[tuple[str, int], ...]] = (
    # The statistics of thousands of versions.
    ("grpc.max_receive_message_length", 16 * 1024 * 1024),
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
    # Below the idle limits of NATs and load balancers.
    ("grpc.keepalive_time_ms", 20_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.so_reuseport", 0),
    # What comes up is small: measuring the line costs more than it could gain.
    ("grpc.http2.bdp_probe", 0),
)


class _Expelled:
    """Set once the stream's token may not join any more."""

    def __init__(self, changed: asyncio.Event) -> None:
        self.now = False
        self._changed = changed

    def __call__(self) -> None:
        self.now = True
        self._changed.set()


class PushService:
    """One coroutine a subscriber sends; a second one reads its answers.

    Args:
        fleet: decides.
        admission: says who may join; None lets everybody in.
        log: where connections are told.
        questions: gets the answers.
    """

    def __init__(
        self,
        fleet: Fleet,
        admission: Admission | None,
        log: FilteringBoundLogger,
        questions: Questions | None = None,
    ) -> None:
        self._fleet = fleet
        self._questions = questions
        self._admission = admission
        self._log = log

    async def connect(self, _: object, context: grpc.aio.ServicerContext) -> None:
        """Serve one stream until the subscriber goes, connects again elsewhere, or may stay no longer."""
        changed = asyncio.Event()
        expelled = _Expelled(changed)
        async with AsyncExitStack() as inside:
            known = Pass()
            if self._admission is not None:
                known = await self._admit(self._admission, context, expelled, inside)
            sidecar = await self._hello(context, changed, known)
            name = sidecar.identity.sidecar
            self._log.info("sidecar connected", sidecar=name, workload=sidecar.identity.workload)
            reading = asyncio.create_task(self._read(context, sidecar, changed))
            try:
                await self._send(context, sidecar, changed, expelled)
            finally:
                reading.cancel()
                [outcome] = await asyncio.gather(reading, return_exceptions=True)
                if isinstance(outcome, Exception):
                    self._log.error("a sidecar's report could not be taken", sidecar=name, error=outcome)
                self._fleet.disconnect(sidecar)
                self._log.info("sidecar gone", sidecar=name)
        if expelled.now:
            await _abort(context, grpc.StatusCode.UNAUTHENTICATED, NOT_ADMITTED)

    async def _admit(
        self,
        admission: Admission,
        context: grpc.aio.ServicerContext,
        expelled: _Expelled,
        inside: AsyncExitStack,
    ) -> Pass:
        metadata = dict(context.invocation_metadata() or ())
        token = bearer(str(metadata.get("authorization", "")))
        try:
            return await inside.enter_async_context(admission.stay(token, _source(context.peer()), expelled))
        except NotAdmittedError:
            self._log.warning("a sidecar without a valid token was sent away", peer=context.peer())
            await _abort(context, grpc.StatusCode.UNAUTHENTICATED, NOT_ADMITTED)
        except NotCheckedError:
            await _abort(context, grpc.StatusCode.UNAVAILABLE, "tokens cannot be checked now")

    async def _hello(self, context: grpc.aio.ServicerContext, changed: asyncio.Event, known: Pass) -> Sidecar:
        try:
            async with asyncio.timeout(HELLO_WITHIN_S):
                first = await context.read()
            report = push_pb2.Report() if first is grpc.aio.EOF else push_pb2.Report.FromString(first)
            return self._fleet.connect(known.applied_to(identity_of(report)), changed.set)
        except (TimeoutError, DecodeError, MalformedReportError) as error:
            said = str(error) if isinstance(error, MalformedReportError) else "say Hello first"
            await _abort(context, grpc.StatusCode.INVALID_ARGUMENT, said)

    async def _send(
        self,
        context: grpc.aio.ServicerContext,
        sidecar: Sidecar,
        changed: asyncio.Event,
        expelled: _Expelled,
    ) -> None:
        while sidecar.connected and not expelled.now:
            changed.clear()
            message = self._fleet.next_message(sidecar)
            if message is None:
                await changed.wait()
            else:
                await context.write(message)

    async def _read(
        self, context: grpc.aio.ServicerContext, sidecar: Sidecar, changed: asyncio.Event
    ) -> None:
        try:
            while (message := await context.read()) is not grpc.aio.EOF:
                self._take(sidecar, push_pb2.Report.FromString(message))
        except (grpc.RpcError, grpc.aio.BaseError, DecodeError) as error:
            self._log.info(
                "sidecar's stream broke", sidecar=sidecar.identity.sidecar, error=str(error)[:MAX_REASON]
            )
        finally:
            # The subscriber said it will say no more, or is gone: the sending side ends too.
            self._fleet.disconnect(sidecar)
            changed.set()

    def _take(self, sidecar: Sidecar, report: push_pb2.Report) -> None:
        kind = report.WhichOneof("kind")
        if kind == "ack":
            self._fleet.acknowledge(sidecar, report.ack.version)
        elif kind == "nack":
            self._fleet.refuse(sidecar, report.nack.version, report.nack.reason[:MAX_REASON])
        elif kind == "envoy":
            state, version = envoy_of(report.envoy)
            self._fleet.told(sidecar, replace(sidecar.told, envoy=state, envoy_version=version))
        elif kind == "statistics":
            epoch, versions = report.statistics.epoch[:MAX_REASON], statistics_of(report.statistics)
            releases = releases_of(report.statistics)
            tiers, compared = tiers_of(report.statistics), compared_of(report.statistics)
            told = replace(
                sidecar.told,
                epoch=epoch,
                versions=versions,
                releases=releases,
                compared=compared,
                tiers=tiers,
            )
            self._fleet.told(sidecar, told)
        elif kind == "cache_statistics":
            self._fleet.told(
                sidecar, replace(sidecar.told, cache=statistics_of_cache(report.cache_statistics))
            )
        elif kind == "limit_uses":
            self._fleet.told(sidecar, replace(sidecar.told, uses=uses_of(report.limit_uses)))
        elif kind == "cache_answer" and self._questions is not None:
            self._questions.answered(sidecar.identity.sidecar, report.cache_answer)


class PushServer:
    """Listens for subscribers.

    Args:
        fleet: decides what they are sent.
        address: `unix:/PATH` or `HOST:PORT`.
        log: where connections are told.
        tls: secures TCP; None leaves it in clear.
        admission: says who may join over TCP; None lets everybody in. A Unix socket is guarded by its folder.
        questions: gets the answers to what is asked.
    """

    def __init__(
        self,
        fleet: Fleet,
        address: str,
        log: FilteringBoundLogger,
        *,
        tls: PushTls | None = None,
        admission: Admission | None = None,
        questions: Questions | None = None,
    ) -> None:
        self._address = address
        self._log = log
        self._tls = tls
        self._admission = None if address.startswith("unix:") else admission
        self._watching: asyncio.Task[None] | None = None
        service = PushService(fleet, self._admission, log, questions)
        # Without serialisers: bytes in, bytes out.
        handler = grpc.stream_stream_rpc_method_handler(service.connect)
        self._server = grpc.aio.server(options=OPTIONS)
        self._server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler(SERVICE, {"Connect": handler}),)
        )
        self.port = 0

    async def start(self) -> None:
        """Listen.

        Raises:
            PushAddressError: the address is none or is in use, or a certificate cannot be read.
        """
        self.port = add_port(self._server, self._address, self._tls, self._log)
        await self._server.start()
        if self._admission is not None:
            self._watching = asyncio.create_task(self._admission.watch(), name="push admission")

    async def stop(self) -> None:
        """End every stream at once: sidecars live on what they have."""
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.gather(self._watching, return_exceptions=True)
        await self._server.stop(0)


def _source(peer: str) -> str:
    """Return the address of a peer such as `ipv4:10.0.0.1:5` or `ipv6:%5B::1%5D:5`, without its port."""
    host = unquote(peer).partition(":")[2].rpartition(":")[0]
    return host.removeprefix("[").removesuffix("]")


async def _abort(context: grpc.aio.ServicerContext, code: grpc.StatusCode, message: str) -> NoReturn:
    await context.abort(code, message)
    raise AssertionError("abort returned")
