"""The open calls of one connection: each served by a task of its own, each ended once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from structlog.typing import FilteringBoundLogger

from ext_proc.transport.http2 import frames
from ext_proc.transport.http2.call import Call
from ext_proc.transport.http2.outgoing import Outgoing
from ext_proc.transport.stream import Abort, Service, Services, Status


class Peer(Protocol):
    """What a server does with its connections."""

    def drain(self) -> None:
        """Tell the peer to open no more calls."""
        ...

    def close(self) -> None:
        """End the connection with whatever runs on it."""
        ...

    @property
    def idle(self) -> bool:
        """Whether no call runs and none will."""
        ...


@dataclass(slots=True)
class Serving:
    """What all connections of a server share.

    Attributes:
        services: by the method's path.
        max_message_bytes: longer messages end their call.
        log: where broken calls and peers are told.
        changed: hears of connections and calls that end.
        connections: those that stand.
        leaving: services that were cancelled and have not ended yet.
        stopping: whether new connections are sent away.
    """

    services: Services
    max_message_bytes: int
    log: FilteringBoundLogger
    changed: Callable[[], None]
    connections: set[Peer] = field(default_factory=set)
    leaving: set[asyncio.Task[None]] = field(default_factory=set)
    stopping: bool = False


class Calls:
    """Opens and ends calls. `open` has them by stream id."""

    __slots__ = ("_loop", "_outgoing", "_serving", "open")

    def __init__(self, serving: Serving, loop: asyncio.AbstractEventLoop) -> None:
        self._serving = serving
        self._loop = loop
        self._outgoing = Outgoing(loop, self.forget)
        self.open: dict[int, Call] = {}

    @property
    def outgoing(self) -> Outgoing:
        """Where the calls send."""
        return self._outgoing

    def begin(self, stream_id: int, service: Service, *, ended: bool) -> None:
        """Serve a new call; `ended` says that the peer sends no message."""
        outgoing = self._outgoing
        call = Call(stream_id, outgoing, self._loop, outgoing.call_window, self._serving.max_message_bytes)
        call.ended = ended
        self.open[stream_id] = call
        call.task = self._loop.create_task(self._serve(call, service))

    async def _serve(self, call: Call, service: Service) -> None:
        try:
            await service(call)
        except Abort as abort:
            self._finish(call, abort.status, abort.message)
        except Exception as error:
            self._serving.log.error("a call failed", error=type(error).__name__, exc_info=True)
            self._finish(call, Status.INTERNAL, "the call failed; see the log")
        except (asyncio.CancelledError, BaseExceptionGroup):
            # Ours, then the call is gone already; or one of the service's own that came out.
            self._finish(call, Status.INTERNAL, "the call was given up")
            raise
        else:
            self._finish(call, Status.OK, "")

    def _finish(self, call: Call, status: Status, message: str) -> None:
        """End a call with its trailers, after all that waits."""
        if not call.open:
            return
        end = frames.trailers(call.id, status, message, opened=call.opened)
        if not call.ended:
            # We take no more of it (RFC 9113 §8.1).
            end += frames.rst_stream(call.id, frames.NO_ERROR)
            call.ended = True
        if self._outgoing.finish(call, end):
            self.forget(call)

    def abort(self, call: Call, abort: Abort) -> None:
        """End a call with a status while its service runs."""
        self._outgoing.drop(call)
        self._finish(call, abort.status, abort.message)
        self.cancel(call)

    def reset(self, call: Call, code: int) -> None:
        """End a call that the peer has broken."""
        self._outgoing.put(frames.rst_stream(call.id, code))
        self.cancel(call)

    def cancel(self, call: Call) -> None:
        """End a call's service without a word to the peer."""
        task = call.task
        if task is not None and not task.done():
            task.cancel()
            self._serving.leaving.add(task)
            task.add_done_callback(self._left)
        self.forget(call)

    def cancel_all(self) -> None:
        """End every call's service."""
        for call in list(self.open.values()):
            self.cancel(call)

    def _left(self, task: asyncio.Task[None]) -> None:
        self._serving.leaving.discard(task)
        self._serving.changed()

    def forget(self, call: Call) -> None:
        """Drop a call that has ended."""
        self.open.pop(call.id, None)
        if call.pending:
            self._outgoing.drop(call)
        call.leave()
        if not self.open:
            self._serving.changed()
