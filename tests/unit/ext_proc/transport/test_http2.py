"""Any conversation at all: random frames, random bytes, random timing; what must hold in each.

A model of the peer knows what it has sent and how much it takes. Whatever it does: nothing escapes as an
exception, an answer is made of its own call's bytes in order and within the windows, and when the peer has
gone no call and no task is left.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from ext_proc.transport.http2 import frames
from tests.unit.ext_proc.transport.http2.peer import (
    Frame,
    Peer,
    Room,
    data,
    goaway,
    message,
    quiet,
    serving_tasks,
)

STREAMS = st.integers(0, 9)
ANY_PAYLOAD = st.one_of(st.binary(max_size=24), st.integers(0, 2**32 - 1).map(lambda n: n.to_bytes(4, "big")))
FLAGS = st.integers(0, 255)


@st.composite
def any_frame(draw: DrawFn) -> bytes:
    """Draw a frame of any kind, flags and stream, some with lengths that lie."""
    payload = draw(ANY_PAYLOAD)
    whole = frames.frame(draw(st.integers(0, 11)), draw(FLAGS), draw(STREAMS), payload)
    return whole[: draw(st.integers(0, len(whole)))] if draw(st.integers(0, 19)) == 0 else whole


PATHS = ("/t/Echo", "/t/Park", "/t/Read", "/t/Fail", "/t/Abort", "/t/Stubborn", "/t/None")


@st.composite
def sound_frame(draw: DrawFn) -> tuple[str, int, bytes]:
    """Draw what a peer sends that means something: a kind of our own, a stream, a value."""
    kind = draw(
        st.sampled_from(["open", "data", "data", "end", "reset", "window", "window-of-all", "initial"])
    )
    return kind, 2 * draw(st.integers(0, 4)) + 1, draw(st.binary(max_size=12))


def frame_of(peer: Peer, sound: tuple[str, int, bytes]) -> bytes:
    """Return the bytes of a frame that means something."""
    kind, stream_id, value = sound
    number = int.from_bytes(value[:1], "big")
    if kind == "open":
        return peer.open(stream_id, PATHS[number % len(PATHS)])
    if kind == "data":
        return data(stream_id, message(value))
    if kind == "end":
        return data(stream_id, b"", end=True)
    if kind == "reset":
        return frames.rst_stream(stream_id, 8)
    if kind == "initial":
        return frames.settings({frames.SETTINGS_INITIAL_WINDOW_SIZE: number})
    return frames.window_update(0 if kind == "window-of-all" else stream_id, number)


STEP = st.one_of(sound_frame(), any_frame(), st.just("turn"), st.just("pause"), st.just("resume"))


@given(steps=st.lists(STEP, max_size=40), greets=st.booleans())
@settings(max_examples=60)
async def test_any_frames(steps: list[tuple[str, int, bytes] | bytes | str], greets: bool) -> None:
    """Sound and unsound ones in any order."""
    peer = Peer(Room().services())
    if greets:
        peer.greet()
    else:
        peer.send(frames.PREFACE)
    for step in steps:
        if peer.wire.closed:
            break
        if isinstance(step, tuple):
            peer.send(frame_of(peer, step))
        elif isinstance(step, bytes):
            peer.send(step)
        elif step == "pause":
            peer.connection.pause_writing()
        elif step == "resume":
            peer.connection.resume_writing()
        else:
            await quiet()
    await quiet()
    peer.take()
    await peer.leave()


@given(chunks=st.lists(st.binary(max_size=60), max_size=10))
@settings(max_examples=40)
async def test_any_bytes(chunks: list[bytes]) -> None:
    """Whatever comes after the preface."""
    peer = Peer(Room().services())
    peer.send(frames.PREFACE)
    for chunk in chunks:
        peer.send(chunk)
        await quiet()
    peer.take()
    await peer.leave()


@given(mutations=st.lists(st.tuples(st.integers(0, 400), st.integers(0, 255)), min_size=1, max_size=4))
@settings(max_examples=40)
async def test_a_sound_conversation_with_wrong_bytes(mutations: list[tuple[int, int]]) -> None:
    """A few bytes of it are others: the nearest to sense that nonsense comes."""
    peer = Peer(Room().services())
    peer.encoder.header_table_size = 0
    whole = bytearray(
        b"".join(
            [
                frames.settings({frames.SETTINGS_INITIAL_WINDOW_SIZE: 1000}),
                frames.frame(frames.SETTINGS, frames.ACK, 0),
                peer.open(1),
                data(1, message(b"abc")),
                peer.open(3, "/t/Park"),
                frames.window_update(0, 100),
                data(1, message(b"def"), end=True),
                frames.rst_stream(3, 8),
                peer.open(5),
                data(5, message(b"ghi"), end=True),
                frames.frame(frames.PING, 0, 0, bytes(8)),
            ]
        )
    )
    for position, value in mutations:
        whole[position % len(whole)] = value
    peer.send(frames.PREFACE)
    half = mutations[0][0] % len(whole)
    peer.send(bytes(whole[:half]))
    await quiet()
    peer.send(bytes(whole[half:]))
    await quiet()
    peer.take()
    await peer.leave()


@dataclass
class Model:
    """One echo call as its client sees it."""

    sent: bytes = b""
    echoed: bytes = b""
    given: int = 0
    ended: bool = False
    gone: bool = False
    status: str | None = None
    rest: bytes = field(default=b"", repr=False)

    def whole(self) -> bytes:
        """Return the whole messages among what was sent."""
        end = 0
        while len(self.sent) - end >= 5:
            size = 5 + int.from_bytes(self.sent[end + 1 : end + 5], "big")
            if len(self.sent) - end < size:
                break
            end += size
        return self.sent[:end]


Action = tuple[str, int, int]
WHAT = (
    *("open", "open", "message", "message", "message", "piece", "end", "reset", "turn", "turn"),
    *("window", "window-of-all", "initial", "pause", "resume"),
)
ACTIONS: SearchStrategy[Action] = st.tuples(
    st.sampled_from(WHAT),
    st.integers(0, 3),
    st.integers(0, 100),
)


class Conversation:
    """A sound peer with several echo calls, and the model of each."""

    def __init__(self) -> None:
        self.peer = Peer(Room().services())
        self.peer.greet()
        self.initial, self.given = 50, 0
        self.calls: dict[int, Model] = {}
        self.paused = False
        self.next_id = 3

    async def begin(self) -> None:
        """Use the whole window of the connection up, so that the rest depends on its updates."""
        used = message(b"%d" % (frames.DEFAULT_WINDOW - frames.MESSAGE_PREFIX_BYTES))
        self.peer.send(self.peer.open(1, "/t/Large"), data(1, used, end=True))
        assert self.peer.status(await self.peer.answer(), 1) == "0"
        self.peer.send(frames.settings({frames.SETTINGS_INITIAL_WINDOW_SIZE: self.initial}))

    async def act(self, action: Action) -> None:
        """Do one thing to one of the open calls."""
        what, which, amount = action
        if what == "open":
            self.calls[self.next_id] = Model()
            self.peer.send(self.peer.open(self.next_id))
            self.next_id += 2
        elif what == "window-of-all":
            self.given += amount + 1
            self.peer.send(frames.window_update(0, amount + 1))
        elif what == "initial":
            await quiet()
            self.look()  # at what was sent while the window was another
            self.initial = amount
            self.peer.send(frames.settings({frames.SETTINGS_INITIAL_WINDOW_SIZE: amount}))
        elif what == "pause":
            self.paused = True
            self.peer.connection.pause_writing()
        elif what == "resume":
            self.paused = False
            self.peer.connection.resume_writing()
        elif what == "turn":
            await quiet()
            self.look()
            self.look_for_what_waits()
        elif self.calls:
            ids = list(self.calls)
            stream_id = ids[which % len(ids)]
            self.act_on(what, stream_id, self.calls[stream_id], amount)

    def act_on(self, what: str, stream_id: int, call: Model, amount: int) -> None:
        """Do one thing to one call, as long as its protocol lets it be done."""
        if what == "window":
            call.given += amount + 1
            self.peer.send(frames.window_update(stream_id, amount + 1))
        elif what == "reset":
            call.gone = True
            self.peer.send(frames.rst_stream(stream_id, 8))
        elif call.ended or call.gone:
            return
        elif what == "end":
            self.piece(stream_id, call, len(call.rest), end=True)
            call.ended = True
        elif what == "message":
            call.rest += message(bytes([stream_id]) * amount)
            self.piece(stream_id, call, len(call.rest))
        elif what == "piece":
            call.rest += message(bytes([stream_id]) * amount)
            self.piece(stream_id, call, max(1, amount // 2))

    def piece(self, stream_id: int, call: Model, size: int, *, end: bool = False) -> None:
        """Send the next bytes of a call's messages."""
        piece, call.rest = call.rest[:size], call.rest[size:]
        call.sent += piece
        self.peer.send(data(stream_id, piece, end=end))

    def look(self) -> None:
        """Take what has come, and compare it with the model."""
        taken = self.peer.take()
        assert goaway(taken) is None
        for frame in taken:
            if frame.stream_id:
                self.look_at(frame, self.calls[frame.stream_id])
        assert self.room() >= 0

    def room(self) -> int:
        """Return what is left of the connection's window."""
        return self.given - sum(len(call.echoed) for call in self.calls.values())

    def look_for_what_waits(self) -> None:
        """Whatever waits has a reason: a window, or a peer that does not read."""
        for call in self.calls.values():
            waits_for_nothing = self.room() > 0 and self.room_of(call) > 0 and not self.paused
            assert call.gone or not waits_for_nothing or call.echoed == call.whole()

    def room_of(self, call: Model) -> int:
        """Return what is left of a call's window."""
        return self.initial + call.given - len(call.echoed)

    def look_at(self, frame: Frame, call: Model) -> None:
        """Compare one frame of a call with the model."""
        if frame.kind == frames.DATA:
            assert call.status is None, "data after the end"
            call.echoed += frame.payload
            assert self.room_of(call) >= 0
            assert call.whole().startswith(call.echoed)
        elif frame.kind == frames.HEADERS and frame.flags & frames.END_STREAM:
            assert call.status is None, "two ends"
            call.status = self.peer.headers(frame)["grpc-status"]
            assert call.ended
            assert call.echoed == call.whole()

    async def finish(self) -> None:
        """Open every window, and see that each call has got what it is owed."""
        self.paused = False
        self.peer.connection.resume_writing()
        for stream_id, call in self.calls.items():
            if not call.ended and not call.gone:
                self.act_on("end", stream_id, call, 0)
        await quiet()
        self.look()
        self.initial = 1_000_000
        self.given += 1_000_000
        self.peer.send(frames.settings({frames.SETTINGS_INITIAL_WINDOW_SIZE: 1_000_000}))
        self.peer.send(frames.window_update(0, 1_000_000))
        await quiet()
        await quiet()
        self.look()
        for call in self.calls.values():
            if not call.gone:
                assert call.echoed == call.whole()
                assert call.status == "0"
        assert self.peer.connection.calls == 0
        assert not serving_tasks()
        await self.peer.works(self.next_id)
        await self.peer.leave()


@given(actions=st.lists(ACTIONS, min_size=10, max_size=60))
@settings(max_examples=40)
async def test_any_sound_conversation(actions: list[Action]) -> None:
    """Each call is answered with its own bytes, all of them once every window opens, and ends in order."""
    conversation = Conversation()
    await conversation.begin()
    for action in actions:
        await conversation.act(action)
        conversation.look()
    await conversation.finish()
