"""How calls begin and end: each once, and none without its service having ended."""

from __future__ import annotations

import asyncio
import weakref

import structlog
from structlog.testing import capture_logs

from ext_proc.transport.http2.calls import Calls, Serving
from ext_proc.transport.stream import Abort, Status, Stream
from tests.unit.ext_proc.transport.http2.peer import Room, quiet, serving_tasks


class Book:
    """Calls of one connection that is never flushed, and how often the server heard of a change."""

    def __init__(self) -> None:
        self.changes = 0
        self.room = Room()
        self.services = self.room.services()
        self.serving = Serving(self.services, 1000, structlog.get_logger(), self.change)
        self.calls = Calls(self.serving, asyncio.get_running_loop())

    def change(self) -> None:
        """Count it."""
        self.changes += 1


async def test_a_call_ends_with_its_service() -> None:
    """It is forgotten, and the server hears when the last has ended."""
    book = Book()
    for stream_id in (1, 3):
        book.calls.begin(stream_id, book.services["/t/Echo"], ended=stream_id == 1)
    await quiet()
    assert list(book.calls.open) == [3]
    assert book.changes == 0
    book.calls.open[3].end()
    await quiet()
    assert not book.calls.open
    assert book.changes == 1


async def test_a_call_that_is_cancelled_before_its_service_has_begun() -> None:
    """The service never begins."""
    book = Book()
    book.calls.begin(1, book.services["/t/Park"], ended=False)
    book.calls.cancel(book.calls.open[1])
    await quiet()
    assert (book.room.parked, book.room.cancelled) == (0, 0)
    assert not serving_tasks()


async def test_services_that_leave_slowly_are_owned() -> None:
    """A cancelled service that still tidies up is kept until it is done."""
    book, tidied = Book(), asyncio.Event()

    async def slow(_stream: Stream) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await tidied.wait()

    book.calls.begin(1, slow, ended=False)
    await quiet()
    book.calls.cancel_all()
    await quiet()
    assert len(book.serving.leaving) == 1
    tidied.set()
    await quiet()
    assert not book.serving.leaving
    assert book.changes == 2


async def test_a_failed_service_is_logged_without_its_words_to_the_peer() -> None:
    """The log has the error, the call INTERNAL."""
    book = Book()
    with capture_logs() as logs:
        book.calls.begin(1, book.services["/t/Fail"], ended=False)
        await quiet()
    assert [(entry["event"], entry["error"]) for entry in logs] == [("a call failed", "ZeroDivisionError")]
    assert not book.calls.open


async def test_groups_of_errors_end_the_call() -> None:
    """Whatever comes out of a service, the call is not left open."""
    book = Book()

    async def group(_stream: Stream) -> None:
        raise BaseExceptionGroup("several", [asyncio.CancelledError()])

    book.calls.begin(1, group, ended=False)
    task = book.calls.open[1].task
    await quiet()
    assert not book.calls.open
    assert task is not None
    assert isinstance(task.exception(), BaseExceptionGroup)


async def test_an_abort_from_outside_ends_the_service() -> None:
    """What waited to be sent is dropped, the status goes at once."""
    book = Book()
    book.calls.begin(1, book.services["/t/Large"], ended=False)
    call = book.calls.open[1]
    call.window = 10
    call.feed(b"\0\0\0\0\x031000"[:8])
    await quiet()
    assert call.pending
    book.calls.abort(call, Abort(Status.RESOURCE_EXHAUSTED, "enough"))
    await quiet()
    assert not book.calls.open
    assert not call.pending
    assert not serving_tasks()


async def test_calls_that_ended_are_freed_without_the_collector() -> None:
    """No cycle holds them: the processor collects garbage rarely."""
    book = Book()

    def begin() -> weakref.ref[asyncio.Task[None]]:
        book.calls.begin(1, book.services["/t/Echo"], ended=True)
        task = book.calls.open[1].task
        assert task is not None
        return weakref.ref(task)

    task = begin()
    await quiet()
    assert task() is None
