"""What is sent and when: windows, turns, a peer that reads slowly."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ext_proc.transport.http2 import frames
from ext_proc.transport.http2.call import Call
from ext_proc.transport.http2.outgoing import MOST_UNFLUSHED_BYTES, MOST_UNFLUSHED_MESSAGES, Outgoing
from ext_proc.transport.stream import Abort

SMALLEST = frames.DEFAULT_MAX_FRAME


class Sink(asyncio.Transport):
    """Takes what is written; `full` says that it takes no more until the test says so."""

    def __init__(self, outgoing: Outgoing, *, most_bytes: int = 2**40) -> None:
        super().__init__()
        self._outgoing = outgoing
        self.most_bytes = most_bytes
        self.writes: list[bytes] = []
        self.aborted = False

    def write(self, data: Any) -> None:
        """Take it, and say when it is too much."""
        self.writes.append(bytes(data))
        if sum(map(len, self.writes)) > self.most_bytes:
            self._outgoing.pause()

    def is_closing(self) -> bool:
        """Return whether it was cut off."""
        return self.aborted

    def abort(self) -> None:
        """Be cut off."""
        self.aborted = True

    def pieces(self) -> list[tuple[int, bytes]]:
        """Return the stream and payload of the DATA frames that were written since the last time."""
        data, found = b"".join(self.writes), []
        self.writes.clear()
        while data:
            high, low, kind, _, stream_id = frames.read_header(data, 0)
            end = frames.HEADER_BYTES + (high << 8 | low)
            if kind == frames.DATA:
                found.append((stream_id, data[frames.HEADER_BYTES : end]))
            data = data[end:]
        return found


class Line:
    """One connection's outgoing side with calls on it."""

    def __init__(self, *, call_window: int = 1_000_000, window: int = 10_000_000, **sink: int) -> None:
        self.ended: list[int] = []
        self.outgoing = Outgoing(asyncio.get_running_loop(), lambda call: self.ended.append(call.id))
        self.sink = self.outgoing.transport = Sink(self.outgoing, **sink)
        self.outgoing.window = window
        self.outgoing.resize([], call_window)

    def call(self, stream_id: int) -> Call:
        """Return a new call."""
        loop = asyncio.get_running_loop()
        return Call(stream_id, self.outgoing, loop, self.outgoing.call_window, 1000)

    def pieces(self) -> list[tuple[int, bytes]]:
        """Flush, and return what DATA went out."""
        self.outgoing.flush()
        return self.sink.pieces()


async def test_a_turn_is_one_write() -> None:
    """Whatever was put in one turn goes out together at its end."""
    line = Line()
    line.outgoing.put(b"a")
    line.outgoing.put(b"b")
    assert line.sink.writes == []
    await asyncio.sleep(0)
    assert line.sink.writes == [b"ab"]
    await asyncio.sleep(0)
    line.outgoing.flush()
    assert line.sink.writes == [b"ab"]


async def test_the_first_messages_of_a_turn_do_not_wait_for_the_rest() -> None:
    """The peer goes on with them while other calls of the same turn are decided."""
    line = Line()
    calls = [line.call(stream_id) for stream_id in range(1, 2 * MOST_UNFLUSHED_MESSAGES + 2, 2)]
    for call in calls[:-1]:
        line.outgoing.send(call, b"x")
    assert [stream_id for stream_id, _ in line.sink.pieces()] == [call.id for call in calls[:-1]]
    line.outgoing.send(calls[-1], b"x")
    assert not line.sink.pieces()
    await asyncio.sleep(0)
    assert [stream_id for stream_id, _ in line.sink.pieces()] == [calls[-1].id]


async def test_a_service_that_writes_without_end_is_flushed_in_mid_turn() -> None:
    """So that the transport can say that it is too much, and the writer waits."""
    line = Line(call_window=2**30, window=2**30, most_bytes=100_000)
    call = line.call(1)
    writing = asyncio.ensure_future(write_many(call, 1000))
    await asyncio.sleep(0)
    assert not writing.done()
    assert sum(map(len, line.sink.writes)) < 2 * MOST_UNFLUSHED_BYTES
    line.sink.most_bytes = 2**40
    line.outgoing.resume()
    await writing
    assert len(line.pieces()) == 1000


async def write_many(call: Call, times: int) -> None:
    """Write many messages in a row."""
    for _ in range(times):
        await call.write(b"x" * 1000)


async def test_large_messages_go_in_frames_that_the_peer_takes() -> None:
    """In its default size, and in larger ones once it says so."""
    line = Line()
    call = line.call(1)
    await call.write(b"x" * 40_000)
    assert [len(payload) for _, payload in line.pieces()] == [SMALLEST, SMALLEST, 40_005 - 2 * SMALLEST]
    line.outgoing.limit_frames(50_000)
    await call.write(b"x" * 40_000)
    assert [len(payload) for _, payload in line.pieces()] == [40_005]


async def test_blocked_calls_take_turns() -> None:
    """The window of the connection is shared frame by frame, not given to the first."""
    line = Line(window=0)
    calls = [line.call(stream_id) for stream_id in (1, 3, 5)]
    for call in calls:
        line.outgoing.send(call, b"x" * 40_000)
    line.outgoing.widen(4 * SMALLEST)
    assert [stream_id for stream_id, _ in line.pieces()] == [1, 3, 5, 1]
    line.outgoing.widen(2 * SMALLEST)
    assert [stream_id for stream_id, _ in line.pieces()] == [3, 5]


async def test_a_call_without_a_window_is_in_nobodys_way() -> None:
    """Others go on; it does when its own window opens."""
    line = Line(call_window=10)
    first, second = line.call(1), line.call(3)
    line.outgoing.send(first, b"x" * 100)
    line.outgoing.send(second, b"y")
    assert line.pieces() == [(1, (b"\0\0\0\0\x64" + b"x" * 5)), (3, b"\0\0\0\0\x01y")]
    line.outgoing.widen(1000)
    assert line.pieces() == []
    assert line.outgoing.widen_call(first, 90)
    assert line.pieces() == [(1, b"x" * 90)]
    assert line.outgoing.widen_call(first, 90)
    assert line.pieces() == [(1, b"x" * 5)]
    assert not first.pending


async def test_windows_below_zero() -> None:
    """A smaller initial window counts what was sent; nothing goes until it is above zero again."""
    line = Line(call_window=100)
    call = line.call(1)
    line.outgoing.send(call, b"x" * 200)
    assert len(line.pieces()[0][1]) == 100
    line.outgoing.resize([call], 30)
    assert call.window == -70
    assert line.outgoing.widen_call(call, 70)
    assert line.pieces() == []
    line.outgoing.resize([call], 31)
    line.outgoing.pump()
    assert [len(payload) for _, payload in line.pieces()] == [1]
    line.outgoing.resize([call], 1000)
    line.outgoing.resize([call], 0)
    line.outgoing.pump()
    assert line.pieces() == []
    line.outgoing.resize([call], 1000)
    line.outgoing.pump()
    assert [len(payload) for _, payload in line.pieces()] == [104]


async def test_windows_that_cannot_be() -> None:
    """The connection's breaks it; a call's is for the call to bear; the initial one breaks all."""
    line = Line()
    call = line.call(1)
    assert not line.outgoing.widen_call(call, frames.LARGEST_WINDOW)
    for broken in (
        lambda: line.outgoing.widen(frames.LARGEST_WINDOW),
        lambda: line.outgoing.resize([], 2**31),
        lambda: line.outgoing.resize([call], frames.LARGEST_WINDOW),
        lambda: line.outgoing.limit_frames(SMALLEST - 1),
        lambda: line.outgoing.limit_frames(2**24),
    ):
        assert code(broken) in (frames.FLOW_CONTROL_ERROR, frames.PROTOCOL_ERROR)


def code(break_it: Callable[[], None]) -> int:
    """Return the error code with which something breaks the connection."""
    with pytest.raises(frames.ProtocolError) as broken:
        break_it()
    return broken.value.code


async def test_a_message_waits_behind_the_one_before() -> None:
    """A small one does not overtake a large one of its call."""
    line = Line(call_window=10)
    call = line.call(1)
    line.outgoing.send(call, b"x" * 20)
    call.window += 1000
    line.outgoing.send(call, b"y")
    assert b"".join(payload for _, payload in line.pieces())[-1:] == b"y"


async def test_the_end_waits_for_what_was_sent() -> None:
    """It comes after the last byte, and the connection hears of it."""
    line = Line(call_window=10)
    call = line.call(1)
    assert line.outgoing.finish(line.call(3), frames.rst_stream(3, 0))
    line.outgoing.send(call, b"x" * 20)
    end = frames.trailers(1, 0, "", opened=True)
    assert not line.outgoing.finish(call, end)
    assert line.ended == []
    line.outgoing.widen_call(call, 100)
    line.outgoing.flush()
    assert line.ended == [1]
    assert line.sink.writes[-1].endswith(end)


async def test_dropped_calls_send_nothing() -> None:
    """And leave nothing behind in the queue."""
    line = Line(window=0)
    calls = [line.call(stream_id) for stream_id in range(1, 201, 2)]
    for call in calls:
        line.outgoing.send(call, b"x" * 100)
    for call in calls[:-1]:
        line.outgoing.drop(call)
    line.outgoing.widen(10_000)
    assert [stream_id for stream_id, _ in line.pieces()] == [199]


async def test_a_call_that_was_left_cannot_be_written() -> None:
    """Its service learns it, in case it has not heard of its cancellation."""
    line = Line()
    call = line.call(1)
    call.leave()
    with pytest.raises(Abort):
        await call.write(b"x")
    assert line.pieces() == []


async def test_a_slow_peer_is_waited_for() -> None:
    """Small messages too; all go when it reads again."""
    line = Line()
    call = line.call(1)
    line.outgoing.pause()
    writing = asyncio.ensure_future(call.write(b"x"))
    await asyncio.sleep(0)
    assert not writing.done()
    assert line.pieces() == []
    line.outgoing.resume()
    await writing
    assert line.pieces() == [(1, b"\0\0\0\0\1x")]


async def test_nothing_is_sent_to_who_has_gone() -> None:
    """Neither before a transport is there nor after its end."""
    line = Line()
    line.sink.abort()
    line.outgoing.put(b"x")
    line.outgoing.flush()
    line.outgoing.transport = None
    line.outgoing.put(b"y")
    line.outgoing.flush()
    assert line.sink.writes == []


async def test_ten_thousand_blocked_calls_cost_no_square() -> None:
    """A window update looks at the calls that can go, not at all."""
    line = Line(call_window=0)
    calls = [line.call(stream_id) for stream_id in range(1, 20_001, 2)]
    for call in calls:
        line.outgoing.send(call, b"x")
    for call in calls:
        line.outgoing.widen_call(call, 6)
    assert len(line.pieces()) == 10_000


@given(
    sizes=st.lists(st.tuples(st.sampled_from([1, 3, 5]), st.integers(0, 60)), max_size=12),
    updates=st.lists(
        st.tuples(st.sampled_from(["call", "all", "initial", "pause", "resume"]), st.integers(0, 80)),
        max_size=30,
    ),
)
async def test_any_windows(sizes: list[tuple[int, int]], updates: list[tuple[str, int]]) -> None:
    """No window is overdrawn, no byte is lost or out of order, and nothing waits that could go."""
    line = Line(call_window=20, window=50)
    calls = {stream_id: line.call(stream_id) for stream_id in (1, 3, 5)}
    written = dict.fromkeys(calls, b"")
    taken = dict.fromkeys(calls, b"")
    initial, given_all, given_each, paused = 20, 50, dict.fromkeys(calls, 0), False
    for number, (stream_id, size) in enumerate(sizes):
        content = bytes([number]) * size
        written[stream_id] += frames.message_prefix(content) + content
        line.outgoing.send(calls[stream_id], content)
    for stream_id, payload in line.pieces():
        taken[stream_id] += payload
    for position, (what, amount) in enumerate([*updates, ("resume", 0)]):
        stream_id = (1, 3, 5)[position % 3]
        if what == "call":
            given_each[stream_id] += amount
            line.outgoing.widen_call(calls[stream_id], amount)
        elif what == "all":
            given_all += amount
            line.outgoing.widen(amount)
        elif what == "initial":
            initial = amount
            line.outgoing.resize(calls.values(), amount)
            line.outgoing.pump()
        elif what == "pause":
            paused = True
            line.outgoing.pause()
        else:
            paused = False
            line.outgoing.resume()
        before = {stream_id: len(payload) for stream_id, payload in taken.items()}
        for stream_id, payload in line.pieces():
            taken[stream_id] += payload
        total = sum(map(len, taken.values()))
        assert total <= given_all
        for stream_id, payload in taken.items():
            assert written[stream_id].startswith(payload)
            room = initial + given_each[stream_id] - len(payload)
            assert room >= 0 or len(payload) == before[stream_id]
            if not paused and total < given_all and room > 0:
                assert payload == written[stream_id]
