"""One call: messages out of pieces of any size, who waits, and how it ends."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ext_proc.transport.http2 import call as http2_call
from ext_proc.transport.http2.call import Call
from ext_proc.transport.stream import Abort, Status
from tests.unit.ext_proc.transport.http2.peer import message

LONGEST = 1000


class Hand:
    """A `Carrier` that takes a message when it is told to."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []
        self.full = False
        self.replenished = 0

    def send(self, call: Call, content: bytes) -> None:
        """Take it, or let it wait."""
        if self.full:
            call.pending.append(memoryview(content))
        else:
            self.sent.append(content)

    async def drained(self, call: Call) -> None:
        """Wait."""
        call.drain = asyncio.get_running_loop().create_future()
        await call.drain

    def replenish(self, call: Call) -> None:
        """Count it."""
        self.replenished += 1
        call.received = 0


def new(hand: Hand | None = None) -> Call:
    """Return a call of the running loop."""
    return Call(1, hand or Hand(), asyncio.get_running_loop(), 65_535, LONGEST)


async def whole(call: Call) -> list[bytes]:
    """Return every message of a call that is fed."""
    call.end()
    found = []
    while (received := await call.read()) is not None:
        found.append(received)
    return found


CONVERSATIONS = {
    "one": [b"hello"],
    "empty": [b""],
    "several-empty": [b"", b"", b""],
    "several": [b"a", b"", b"bcdef", b"", b"", b"g" * 30],
    "looks-like-a-prefix": [b"\0\0\0\0\5", b"\1\0\0\0\0"],
    "longest": [b"x" * LONGEST],
}


@pytest.mark.parametrize("contents", CONVERSATIONS.values(), ids=CONVERSATIONS)
async def test_every_split_in_two(contents: list[bytes]) -> None:
    """Wherever the pieces end, the messages are the same."""
    payload = b"".join(message(content) for content in contents)
    for cut in range(len(payload) + 1):
        call = new()
        call.feed(payload[:cut])
        call.feed(payload[cut:])
        assert await whole(call) == contents


@pytest.mark.parametrize("contents", CONVERSATIONS.values(), ids=CONVERSATIONS)
async def test_byte_by_byte(contents: list[bytes]) -> None:
    """With empty pieces between them."""
    payload = b"".join(message(content) for content in contents)
    call = new()
    for position in range(len(payload)):
        call.feed(payload[position : position + 1])
        call.feed(b"")
    assert await whole(call) == contents


@given(
    contents=st.lists(st.binary(max_size=30), max_size=10),
    cuts=st.lists(st.integers(0, 400), max_size=20),
)
async def test_any_split(contents: list[bytes], cuts: list[int]) -> None:
    """Any number of pieces."""
    payload = b"".join(message(content) for content in contents)
    places = [0, *sorted(min(cut, len(payload)) for cut in cuts), len(payload)]
    call = new()
    for start, end in pairwise(places):
        call.feed(payload[start:end])
    assert await whole(call) == contents


async def test_many_messages_in_one_piece() -> None:
    """They cost what they are long, not its square."""
    call = new()
    call.feed(message(b"") * 100_000)
    assert len(await whole(call)) == 100_000


async def test_a_reader_waits_for_a_message() -> None:
    """It sleeps until one is whole, or until the end."""
    call = new()
    reading = asyncio.ensure_future(call.read())
    await asyncio.sleep(0)
    call.feed(message(b"ab")[:6])
    await asyncio.sleep(0)
    assert not reading.done()
    call.feed(b"b")
    assert await reading == b"ab"
    reading = asyncio.ensure_future(call.read())
    await asyncio.sleep(0)
    call.end()
    assert await reading is None
    assert await call.read() is None


async def test_a_reader_that_gave_up_loses_nothing() -> None:
    """The message is there when it comes again."""
    call = new()
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(call.read(), 0.001)
    call.feed(message(b"late"))
    assert await call.read() == b"late"


@pytest.mark.parametrize("cut", range(1, 9))
async def test_an_end_within_a_message(cut: int) -> None:
    """What is whole is read, then it is an error."""
    call = new()
    call.feed(message(b"whole") + message(b"half")[:cut])
    call.end()
    assert await call.read() == b"whole"
    with pytest.raises(Abort) as aborted:
        await call.read()
    assert aborted.value.status is Status.INTERNAL


@pytest.mark.parametrize(
    ("payload", "status"),
    [
        (message(b"x", compressed=True), Status.UNIMPLEMENTED),
        (b"\xff\0\0\0\0", Status.UNIMPLEMENTED),
        (message(b"fine") + message(b"x" * (LONGEST + 1)), Status.RESOURCE_EXHAUSTED),
        (b"\0\xff\xff\xff\xff", Status.RESOURCE_EXHAUSTED),
    ],
)
async def test_messages_that_are_refused(payload: bytes, status: Status) -> None:
    """By their prefix, before the rest has come."""
    call = new()
    with pytest.raises(Abort) as aborted:
        for position in range(len(payload)):
            call.feed(payload[position : position + 1])
    assert aborted.value.status is status


async def test_a_writer_waits_while_the_peer_does_not_take() -> None:
    """And goes on when it does."""
    hand = Hand()
    call = new(hand)
    await call.write(b"a")
    hand.full = True
    writing = asyncio.ensure_future(call.write(b"b"))
    await asyncio.sleep(0)
    assert not writing.done()
    call.pending.clear()
    call.wake_writer()
    await writing
    assert hand.sent == [b"a"]


async def test_leaving_wakes_everyone() -> None:
    """The reader sees the end, also within a message; nothing waits to be sent."""
    hand = Hand()
    hand.full = True
    call = new(hand)
    call.feed(message(b"half")[:7])
    reading = asyncio.ensure_future(call.read())
    writing = asyncio.ensure_future(call.write(b"b"))
    await asyncio.sleep(0)
    call.leave()
    assert await reading is None
    await writing
    assert not call.pending
    call.leave()


async def test_leaving_passes_over_waiters_that_are_gone() -> None:
    """A cancelled reader or writer is not woken."""
    hand = Hand()
    hand.full = True
    call = new(hand)
    waiting = [asyncio.ensure_future(call.read()), asyncio.ensure_future(call.write(b"b"))]
    await asyncio.sleep(0)
    for task in waiting:
        task.cancel()
    call.leave()
    assert all(
        isinstance(end, asyncio.CancelledError)
        for end in await asyncio.gather(*waiting, return_exceptions=True)
    )


async def test_the_window_is_filled_when_all_is_read() -> None:
    """Not before: who does not read is not sent more than a window."""
    hand = Hand()
    call = new(hand)
    call.feed(message(b"a") + message(b"b"))
    assert not call.caught_up
    call.received = http2_call.HALF_WINDOW
    await call.read()
    assert hand.replenished == 0
    await call.read()
    assert call.caught_up
    assert hand.replenished == 1
