"""The subscriber's end of a push stream: snapshots and questions in, what became of them and answers out.

The agent follows the control plane by it, the processor the agent. Protocol: ext_proc/contract/push.proto.
The server may come and go; nothing waits for it, and what is in force stays so.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

import grpc
from structlog.typing import FilteringBoundLogger

from ext_proc.contract import push_pb2, push_pb2_grpc
from ext_proc.contract.cache import CacheQuestion
from ext_proc.contract.cache_wire import question_of
from ext_proc.contract.snapshot import Snapshot, decode

RECONNECT_BASE_S = 0.1
# How long a server that starts beside us is waited for before its absence is told.
STARTUP_S = 5.0
MAX_SNAPSHOT_BYTES = 256 * 1024 * 1024
REASON_LIMIT = 2_000
CHANNEL_OPTIONS = (
    ("grpc.max_receive_message_length", MAX_SNAPSHOT_BYTES),
    # A peer that vanished without a word is noticed within half a minute; NATs keep what is in use.
    ("grpc.keepalive_time_ms", 20_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1_000),
    # The control plane is ours; providers are what a proxy is for.
    ("grpc.enable_http_proxy", 0),
    # One snapshot at a time comes down: a fixed window costs less than measuring the line at each message.
    ("grpc.http2.bdp_probe", 0),
    ("grpc.http2.lookahead_bytes", 1024 * 1024),
)

Metadata = tuple[tuple[str, str], ...]


class DialError(Exception):
    """There is no way to call now; the message says what to do about it."""


class Dial(Protocol):
    """The way to whoever pushes. Asked anew at each connect, so that renewed files count."""

    @property
    def target(self) -> str:
        """Who is called: `unix:/…` or `HOST:PORT`."""

    def channel(self, options: tuple[tuple[str, int], ...]) -> grpc.aio.Channel:
        """Open a channel; raise DialError when that cannot be."""

    def metadata(self) -> Metadata:
        """Return what a call carries beside its messages; raise DialError when that cannot be."""


@dataclass(frozen=True, slots=True)
class PlainDial:
    """In clear and without a token: by a Unix socket, that is."""

    target: str

    def channel(self, options: tuple[tuple[str, int], ...]) -> grpc.aio.Channel:
        """Open a channel."""
        return grpc.aio.insecure_channel(self.target, options=options)

    def metadata(self) -> Metadata:
        """Return nothing."""
        return ()


@dataclass(frozen=True, slots=True)
class Pushed:
    """What came: the whole policy, and the providers' keys that the control plane keeps for it."""

    snapshot: Snapshot
    secrets: Mapping[tuple[str, str], bytes] = field(default_factory=dict, repr=False)


class UnusableError(Exception):
    """What was pushed cannot be used here; the message says why."""


class PushClient:
    """Stays connected to whoever pushes policy.

    Args:
        dial: the way there.
        hello: says who this is and what is in force; called at each connect.
        on_push: takes what comes; must not block. Raises UnusableError to refuse it.
        jitter: a number in [0, 1), drawn anew at each call.
        log: where the connection's state is told.
        pause_max_s: the longest pause between two attempts.
        held: the snapshot in force, if it need not be sent again when the server has the same; called at
            each connect.
        standing: what else is to be told at each connect.
        on_question: takes a question and its id; must not block. Without it none is asked.
        on_attempt: takes what an attempt came to; must not block. Without it none is told.
    """

    def __init__(
        self,
        dial: Dial,
        hello: Callable[[], push_pb2.Hello],
        on_push: Callable[[Pushed], None],
        *,
        jitter: Callable[[], float],
        log: FilteringBoundLogger,
        pause_max_s: float,
        held: Callable[[], Snapshot | None] = lambda: None,
        standing: Callable[[], Iterable[push_pb2.Report]] = tuple,
        on_question: Callable[[int, CacheQuestion], None] | None = None,
        on_attempt: Callable[[push_pb2.Attempt], None] | None = None,
    ) -> None:
        self._dial = dial
        self._hello = hello
        self._on_push = on_push
        self._jitter = jitter
        self._log = log
        self._pause_max_s = pause_max_s
        self._held = held
        self._standing = standing
        self._on_question = on_question
        self._on_attempt = on_attempt
        self._kept: Snapshot | None = None
        self._received = 0
        self._reports: asyncio.Queue[push_pb2.Report] = asyncio.Queue()

    def acknowledge(self, version: str, oldest_in_use: str) -> None:
        """Report that `version` is in force."""
        self.tell(push_pb2.Report(ack=push_pb2.Ack(version=version, oldest_in_use=oldest_in_use)))

    def refuse(self, version: str, reason: str) -> None:
        """Report that `version` was refused."""
        self.tell(push_pb2.Report(nack=push_pb2.Nack(version=version, reason=reason[:REASON_LIMIT])))

    def tell(self, report: push_pb2.Report) -> None:
        """Send `report`, if there is a connection."""
        self._reports.put_nowait(report)

    async def run(self) -> None:
        """Stay connected until cancelled."""
        failures, waited_s, told = 0, 0.0, False
        while True:
            before, trouble = self._received, ""
            try:
                await self._follow()
                self._log.info("the push stream was ended by its server", target=self._dial.target)
            except grpc.aio.AioRpcError as error:
                trouble = error.code().name
                if error.code() is grpc.StatusCode.UNAUTHENTICATED:
                    trouble = error.details() or trouble
            except DialError as error:
                trouble = str(error)
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                # A call that fails while it is cancelled tells of its failure alone.
                raise asyncio.CancelledError
            if connected := self._received > before:
                failures, told = 0, False
            # Once, not at each attempt.
            if trouble and (connected or (waited_s >= STARTUP_S and not told)):
                told = True
                self._log.warning(
                    "the push stream is down; policy stays as it is", target=self._dial.target, reason=trouble
                )
            failures += 1
            pause_s = min(self._pause_max_s, RECONNECT_BASE_S * 2 ** min(failures, 8))
            pause_s *= 0.5 + self._jitter() / 2
            waited_s += pause_s
            await asyncio.sleep(pause_s)

    async def _follow(self) -> None:
        """Follow one stream to its end."""
        # Reports meant for an earlier connection are void: Hello says what is in force.
        reports: asyncio.Queue[push_pb2.Report] = asyncio.Queue()
        self._reports = reports
        async with self._dial.channel(CHANNEL_OPTIONS) as channel:
            stub = push_pb2_grpc.PolicyPushStub(channel)  # type: ignore[no-untyped-call]
            call = stub.Connect(metadata=self._dial.metadata())
            speaking = asyncio.create_task(self._speak(call, reports))
            try:
                async for message in call:
                    self._received += 1
                    if message.HasField("question"):
                        self._ask(message.question)
                    elif message.HasField("attempt"):
                        if self._on_attempt is not None:
                            self._on_attempt(message.attempt)
                    else:
                        self._take(message)
            finally:
                speaking.cancel()
                await asyncio.gather(speaking, return_exceptions=True)

    async def _speak(self, call: grpc.aio.StreamStreamCall, reports: asyncio.Queue[push_pb2.Report]) -> None:
        hello = self._hello()
        self._kept = self._held()
        hello.keeps = self._kept is not None
        hello.answers = self._on_question is not None
        hello.hears = self._on_attempt is not None
        hello.accepts.append(push_pb2.ZLIB)
        try:
            await call.write(push_pb2.Report(hello=hello))
            for report in self._standing():
                await call.write(report)
            while True:
                await call.write(await reports.get())
        except (grpc.aio.AioRpcError, asyncio.InvalidStateError) as error:
            # The reading side ends with the reason, and tells it.
            self._log.debug("the push stream takes no more reports", error=str(error))

    def _take(self, message: push_pb2.Snapshot) -> None:
        try:
            snapshot = replace(self._read(message), version=message.version, revision=message.revision)
            secrets = {(secret.name, secret.key): secret.value for secret in message.secrets}
            self._on_push(Pushed(snapshot, secrets))
        except UnusableError as error:
            self._log.error("what was pushed is refused", version=message.version, reason=str(error))
            self.refuse(message.version, str(error))

    def _ask(self, message: push_pb2.CacheQuestion) -> None:
        question = question_of(message)
        if question is not None and self._on_question is not None:
            self._on_question(message.id, question)

    def _read(self, message: push_pb2.Snapshot) -> Snapshot:
        if message.kept:
            if self._kept is None:
                raise UnusableError("there is nothing here that could be kept")
            return self._kept
        try:
            return decode(_unpacked(message))
        except (ValueError, zlib.error) as error:
            raise UnusableError(f"this build cannot read the snapshot: {error}") from error


def _unpacked(message: push_pb2.Snapshot) -> bytes:
    if message.encoding == push_pb2.PLAIN:
        return message.content
    if message.encoding != push_pb2.ZLIB:
        raise ValueError(f"its encoding {message.encoding} is unknown")
    unpacking = zlib.decompressobj()
    content = unpacking.decompress(message.content, MAX_SNAPSHOT_BYTES)
    if not unpacking.eof:
        raise ValueError("it is cut off, or too large")
    return content
