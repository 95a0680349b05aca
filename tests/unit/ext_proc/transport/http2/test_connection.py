"""A peer that speaks frame by frame: what it may do, what it may not, and that nothing of it stays."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from urllib.parse import unquote

import pytest

from ext_proc.transport.http2 import call as http2_call
from ext_proc.transport.http2 import connection as http2_connection
from ext_proc.transport.http2 import frames
from ext_proc.transport.http2 import outgoing as http2_outgoing
from ext_proc.transport.http2.blocks import MAX_BLOCK_BYTES
from ext_proc.transport.http2.call import Call
from tests.unit.ext_proc.transport.http2.peer import (
    MAX_MESSAGE_BYTES,
    Peer,
    Room,
    alive,
    data,
    goaway,
    message,
    messages,
    quiet,
    reset,
    sent,
    serving_tasks,
)

Bytes = Callable[[Peer], bytes]


@pytest.fixture
def room() -> Room:
    """The services of one test."""
    return Room()


@pytest.fixture
async def peer(room: Room) -> AsyncIterator[Peer]:
    """A peer that has greeted. When the test is over, nothing may be left."""
    made = Peer(room.services())
    made.greet()
    await made.answer()
    yield made
    await made.leave()


def frame(kind: int, stream_id: int, payload: bytes = b"", flags: int = 0) -> Bytes:
    """Return what makes one frame."""
    return lambda _peer: frames.frame(kind, flags, stream_id, payload)


def opened(stream_id: int, *then: bytes, path: str = "/t/Park", end: bool = False) -> Bytes:
    """Return what opens a call and goes on with `then`."""
    return lambda peer: peer.open(stream_id, path, end=end) + b"".join(then)


def setting(name: int, value: int) -> Bytes:
    """Return what sends one setting."""
    return lambda _peer: frames.settings({name: value})


def window(stream_id: int, increment: int) -> bytes:
    """Return a window update, whatever its value."""
    return frames.window_update(stream_id, increment)


def split_block(size: int, stream_id: int = 1) -> Bytes:
    """Return a header block of `size` bytes in frames of 16 KiB."""
    pieces = [b"\x00" * min(16_384, size - start) for start in range(0, size, 16_384)]
    first = frames.frame(frames.HEADERS, 0, stream_id, pieces[0])
    return lambda _peer: (
        first + b"".join(frames.frame(frames.CONTINUATION, 0, stream_id, piece) for piece in pieces[1:])
    )


LARGEST = frames.LARGEST_WINDOW
H, D, P = frames.HEADERS, frames.DATA, frames.PADDED

BREAKS_THE_CONNECTION: dict[str, tuple[Bytes, int]] = {
    "data-of-stream-0": (frame(D, 0, b"x"), frames.PROTOCOL_ERROR),
    "data-of-an-idle-stream": (frame(D, 1, b"x"), frames.PROTOCOL_ERROR),
    "data-of-an-even-stream": (opened(5, data(4, b"x")), frames.PROTOCOL_ERROR),
    "data-padded-without-a-length": (
        opened(1, frames.frame(D, P, 1)),
        frames.FRAME_SIZE_ERROR,
    ),
    "data-with-more-padding-than-payload": (
        opened(1, frames.frame(D, P, 1, b"\x03ab")),
        frames.PROTOCOL_ERROR,
    ),
    "headers-of-stream-0": (opened(0), frames.PROTOCOL_ERROR),
    "headers-of-an-even-stream": (opened(2), frames.PROTOCOL_ERROR),
    "headers-of-an-even-stream-below": (
        lambda peer: peer.open(5) + peer.open(4, end=True),
        frames.PROTOCOL_ERROR,
    ),
    "a-stream-below-the-last": (lambda peer: peer.open(5) + peer.open(3), frames.PROTOCOL_ERROR),
    "a-stream-opened-again": (
        lambda peer: peer.open(1) + frames.rst_stream(1, 8) + peer.open(1),
        frames.PROTOCOL_ERROR,
    ),
    "headers-padded-without-a-length": (frame(H, 1, b"", 4 | P), frames.FRAME_SIZE_ERROR),
    "headers-with-more-padding-than-payload": (frame(H, 1, b"\x09abc", 4 | P), frames.PROTOCOL_ERROR),
    "headers-with-half-a-priority": (
        frame(H, 1, b"\0\0\0", 4 | frames.HAS_PRIORITY),
        frames.FRAME_SIZE_ERROR,
    ),
    "a-block-cut-short": (frame(H, 1, b"\x40\x0aabc", 4), frames.COMPRESSION_ERROR),
    "a-block-with-an-index-beyond": (frame(H, 1, b"\xff\xff\x03", 4), frames.COMPRESSION_ERROR),
    "a-block-with-a-table-again": (frame(H, 1, b"\x3f\xe1\x1f", 4), frames.COMPRESSION_ERROR),
    "a-block-that-does-not-give-up-its-table": (frame(H, 1, b"\x83", 4), frames.COMPRESSION_ERROR),
    "a-block-too-long-in-one-frame": (
        frame(H, 1, b"\x20" * (MAX_BLOCK_BYTES + 1), 4),
        frames.ENHANCE_YOUR_CALM,
    ),
    "a-block-without-end": (split_block(MAX_BLOCK_BYTES + 1), frames.ENHANCE_YOUR_CALM),
    "reset-of-stream-0": (frame(frames.RST_STREAM, 0, b"\0\0\0\x08"), frames.PROTOCOL_ERROR),
    "reset-of-an-idle-stream": (frame(frames.RST_STREAM, 1, b"\0\0\0\x08"), frames.PROTOCOL_ERROR),
    "reset-too-short": (opened(1, frames.frame(frames.RST_STREAM, 0, 1, b"\0")), frames.FRAME_SIZE_ERROR),
    "settings-of-a-stream": (frame(frames.SETTINGS, 1), frames.PROTOCOL_ERROR),
    "settings-of-a-wrong-length": (frame(frames.SETTINGS, 0, b"12345"), frames.FRAME_SIZE_ERROR),
    "settings-acknowledged-with-settings": (
        frame(frames.SETTINGS, 0, b"123456", frames.ACK),
        frames.FRAME_SIZE_ERROR,
    ),
    "initial-window-too-large": (
        setting(frames.SETTINGS_INITIAL_WINDOW_SIZE, 2**31),
        frames.FLOW_CONTROL_ERROR,
    ),
    "initial-window-makes-a-window-too-large": (
        lambda peer: (
            peer.open(1)
            + window(1, LARGEST - 65_535)
            + frames.settings({frames.SETTINGS_INITIAL_WINDOW_SIZE: 65_536})
        ),
        frames.FLOW_CONTROL_ERROR,
    ),
    "frames-too-small": (setting(frames.SETTINGS_MAX_FRAME_SIZE, 16_383), frames.PROTOCOL_ERROR),
    "frames-too-large": (setting(frames.SETTINGS_MAX_FRAME_SIZE, 2**24), frames.PROTOCOL_ERROR),
    "push-neither-on-nor-off": (setting(frames.SETTINGS_ENABLE_PUSH, 2), frames.PROTOCOL_ERROR),
    "ping-of-a-stream": (frame(frames.PING, 1, b"12345678"), frames.PROTOCOL_ERROR),
    "ping-of-a-wrong-length": (frame(frames.PING, 0, b"1234567"), frames.FRAME_SIZE_ERROR),
    "goaway-of-a-stream": (frame(frames.GOAWAY, 1, bytes(8)), frames.PROTOCOL_ERROR),
    "goaway-too-short": (frame(frames.GOAWAY, 0, bytes(7)), frames.FRAME_SIZE_ERROR),
    "priority-of-stream-0": (frame(frames.PRIORITY, 0, bytes(5)), frames.PROTOCOL_ERROR),
    "priority-of-a-wrong-length": (frame(frames.PRIORITY, 1, bytes(4)), frames.FRAME_SIZE_ERROR),
    "push-promise": (frame(frames.PUSH_PROMISE, 1, bytes(4), 4), frames.PROTOCOL_ERROR),
    "continuation-of-nothing": (frame(frames.CONTINUATION, 1, b"", 4), frames.PROTOCOL_ERROR),
    "continuation-of-another-stream": (
        lambda _peer: frames.frame(H, 0, 1) + frames.frame(frames.CONTINUATION, 4, 3),
        frames.PROTOCOL_ERROR,
    ),
    "a-ping-within-a-header-block": (
        lambda _peer: frames.frame(H, 0, 1) + frames.frame(frames.PING, 0, 0, bytes(8)),
        frames.PROTOCOL_ERROR,
    ),
    "headers-within-a-header-block": (
        lambda _peer: frames.frame(H, 0, 1) + frames.frame(H, 4, 1),
        frames.PROTOCOL_ERROR,
    ),
    "window-update-of-a-wrong-length": (
        frame(frames.WINDOW_UPDATE, 0, bytes(3)),
        frames.FRAME_SIZE_ERROR,
    ),
    "window-update-of-nothing": (frame(frames.WINDOW_UPDATE, 0, bytes(4)), frames.PROTOCOL_ERROR),
    "window-update-of-an-idle-stream": (lambda _peer: window(1, 1), frames.PROTOCOL_ERROR),
    "window-of-the-connection-too-large": (
        lambda _peer: window(0, LARGEST),
        frames.FLOW_CONTROL_ERROR,
    ),
    "a-frame-longer-than-announced": (
        lambda _peer: frames.frame_header(D, 0, 1, http2_connection.OUR_MAX_FRAME + 1) + b"x",
        frames.FRAME_SIZE_ERROR,
    ),
}


@pytest.mark.parametrize(("make", "code"), BREAKS_THE_CONNECTION.values(), ids=BREAKS_THE_CONNECTION)
async def test_what_breaks_the_connection(peer: Peer, make: Bytes, code: int) -> None:
    """It ends with a GOAWAY that says why; whatever comes after is not looked at."""
    peer.send(make(peer), b"\xff" * 100)
    taken = await peer.answer()
    last = goaway(taken)
    assert last is not None
    assert last[1] == code
    assert peer.wire.closed
    peer.send(b"\xff" * 100)


@pytest.mark.parametrize("wrong", [b"GET / HTTP/1.1\r\n", b"X", frames.PREFACE[:-1] + b"X"])
async def test_another_protocol(room: Room, wrong: bytes) -> None:
    """It is refused at its first wrong byte; nobody waits for more."""
    peer = Peer(room.services())
    for position in range(len(wrong)):
        peer.send(wrong[position : position + 1])
    last = goaway(await peer.answer())
    assert last == (0, frames.PROTOCOL_ERROR)
    await peer.leave()


BREAKS_A_CALL: dict[str, tuple[Bytes, int]] = {
    "data-after-the-end": (opened(1, data(1, b"x"), end=True), frames.STREAM_CLOSED),
    "trailers-after-the-end": (
        lambda peer: peer.open(1, "/t/Park", end=True) + peer.open(1, end=True),
        frames.STREAM_CLOSED,
    ),
    "headers-in-the-middle": (
        lambda peer: peer.open(1, "/t/Park") + peer.open(1),
        frames.PROTOCOL_ERROR,
    ),
    "window-update-of-nothing": (opened(1, window(1, 0)), frames.PROTOCOL_ERROR),
    "window-too-large": (opened(1, window(1, LARGEST)), frames.FLOW_CONTROL_ERROR),
}


@pytest.mark.parametrize(("make", "code"), BREAKS_A_CALL.values(), ids=BREAKS_A_CALL)
async def test_what_breaks_a_call(peer: Peer, room: Room, make: Bytes, code: int) -> None:
    """The call is reset and its service cancelled; the connection goes on."""
    peer.send(make(peer))
    taken = await peer.answer()
    assert reset(taken, 1) == code
    assert goaway(taken) is None
    assert peer.connection.calls == 0
    assert room.parked == 0
    await peer.works(3)


LATE: dict[str, bytes] = {
    "data": data(1, b"whatever"),
    "the-end": data(1, b"", end=True),
    "reset": frames.rst_stream(1, 8),
    "window-update": window(1, 10),
    "window-update-of-nothing": window(1, 0),
    "priority": frames.frame(frames.PRIORITY, 0, 1, bytes(5)),
}


@pytest.mark.parametrize("late", LATE.values(), ids=LATE)
@pytest.mark.parametrize("how", ["finished", "reset-by-peer", "aborted"])
async def test_late_frames_of_a_call_that_has_ended(peer: Peer, how: str, late: bytes) -> None:
    """They have no effect and no answer, however it ended."""
    if how == "finished":
        peer.send(peer.open(1), data(1, b"", end=True))
    elif how == "aborted":
        peer.send(peer.open(1), data(1, message(b"x", compressed=True)))
    else:
        peer.send(peer.open(1), frames.rst_stream(1, 8))
    await peer.answer()
    peer.send(late)
    assert await peer.answer() == []
    await peer.works(3)


async def test_late_trailers(peer: Peer) -> None:
    """They have no effect, but their block is read: later ones may depend on it."""
    peer.send(peer.open(1, "/t/None"))
    assert peer.status(await peer.answer(), 1) == "12"
    peer.send(peer.open(1, "/t/None", end=True))
    assert await peer.answer() == []
    await peer.works(3)


NO_EFFECT: dict[str, bytes] = {
    "an-unknown-kind": frames.frame(0x77, 0xFF, 9, b"whatever"),
    "an-unknown-setting": frames.settings({0x99: 1}),
    "a-priority": frames.frame(frames.PRIORITY, 0, 7, bytes(5)),
    "a-goaway": frames.goaway(0, 0, "bye"),
    "a-ping-acknowledged": frames.frame(frames.PING, frames.ACK, 0, b"settling"),
    "settings-acknowledged-again": frames.frame(frames.SETTINGS, frames.ACK, 0),
    "an-empty-read": b"",
}


@pytest.mark.parametrize("what", NO_EFFECT.values(), ids=NO_EFFECT)
async def test_what_has_no_effect(peer: Peer, what: bytes) -> None:
    """It is passed over, and the connection goes on."""
    peer.send(what)
    assert goaway(await peer.answer()) is None
    await peer.works(1)


async def test_a_ping_is_answered(peer: Peer) -> None:
    """With its own bytes."""
    peer.send(frames.frame(frames.PING, 0, 0, b"\0\1\2\3\4\5\6\7"))
    (answer,) = await peer.answer()
    assert answer == (frames.PING, frames.ACK, 0, b"\0\1\2\3\4\5\6\7")


async def test_settings_are_acknowledged(room: Room) -> None:
    """Ours come first, then the acknowledgement of theirs."""
    peer = Peer(room.services())
    peer.send(frames.PREFACE, frames.settings({}))
    taken = await peer.answer()
    assert [(f.kind, f.flags) for f in taken] == [
        (frames.SETTINGS, 0),
        (frames.WINDOW_UPDATE, 0),
        (frames.SETTINGS, frames.ACK),
    ]
    await peer.leave()


@pytest.mark.parametrize("padding", [0, 1, 255])
async def test_padding_and_priority(peer: Peer, padding: int) -> None:
    """They are taken off."""
    block = bytes([padding]) + bytes(5) + peer.block("/t/Echo") + bytes(padding)
    padded = bytes([padding]) + message(b"hello") + bytes(padding)
    flags = frames.END_HEADERS | frames.PADDED | frames.HAS_PRIORITY
    peer.send(
        frames.frame(frames.HEADERS, flags, 1, block),
        frames.frame(frames.DATA, frames.PADDED | frames.END_STREAM, 1, padded),
    )
    taken = await peer.answer()
    assert messages(taken, 1) == [b"hello"]
    assert peer.status(taken, 1) == "0"


async def test_a_header_block_in_pieces(peer: Peer) -> None:
    """One byte a CONTINUATION, some of them empty."""
    block = peer.block("/t/Echo")
    peer.send(frames.frame(frames.HEADERS, frames.END_STREAM, 1, block[:1]))
    for position in range(1, len(block)):
        peer.send(frames.frame(frames.CONTINUATION, 0, 1))
        peer.send(frames.frame(frames.CONTINUATION, 0, 1, block[position : position + 1]))
    peer.send(frames.frame(frames.CONTINUATION, frames.END_HEADERS, 1))
    assert peer.status(await peer.answer(), 1) == "0"


async def test_a_table_before_the_peer_knows_our_settings(room: Room) -> None:
    """Blocks that use the dynamic table are understood until the acknowledgement, and after it without."""
    peer = Peer(room.services())
    peer.send(frames.PREFACE, frames.settings({}))
    for stream_id, path in [(1, "/t/Echo"), (3, "/t/None"), (5, "/t/Echo"), (7, "/t/None")]:
        peer.send(peer.open(stream_id, path, end=True))
    assert len(peer.block("/t/None")) == 4  # all indexed
    taken = await peer.answer()
    assert [peer.status(taken, stream_id) for stream_id in (1, 3, 5, 7)] == ["0", "12", "0", "12"]
    peer.send(frames.frame(frames.SETTINGS, frames.ACK, 0))
    peer.encoder.header_table_size = 0
    for stream_id in range(9, 29, 4):
        peer.send(peer.open(stream_id, end=True), peer.open(stream_id + 2, "/t/None", end=True))
    taken = await peer.answer()
    assert [peer.status(taken, stream_id) for stream_id in range(9, 29, 2)] == ["0", "12"] * 5
    await peer.leave()


async def test_every_cut(room: Room) -> None:
    """A conversation in two reads, cut at every byte, is the conversation in one."""

    def conversation(peer: Peer) -> bytes:
        peer.encoder.header_table_size = 0
        return b"".join(
            [
                frames.PREFACE,
                frames.settings({frames.SETTINGS_INITIAL_WINDOW_SIZE: 100}),
                frames.frame(frames.SETTINGS, frames.ACK, 0),
                peer.open(1),
                data(1, message(b"a") + message(b"bc")[:3]),
                data(1, message(b"bc")[3:]),
                frames.frame(frames.PING, 0, 0, b"12345678"),
                peer.open(3),
                frames.frame(frames.DATA, frames.PADDED, 3, b"\2" + message(b"d") + bytes(2)),
                data(1, b"", end=True),
                frames.rst_stream(3, 8),
            ]
        )

    size = len(conversation(Peer(room.services())))
    for cut in range(size + 1):
        peer = Peer(room.services())
        whole = conversation(peer)
        peer.send(whole[:cut])
        await quiet()
        peer.send(whole[cut:])
        taken = await peer.answer()
        assert messages(taken, 1) == [b"a", b"bc"], cut
        assert peer.status(taken, 1) == "0", cut
        assert goaway(taken) is None
        assert peer.connection.calls == 0
        peer.connection.connection_lost(None)


async def test_byte_by_byte(room: Room) -> None:
    """The same, and nobody minds."""
    peer = Peer(room.services())
    peer.encoder.header_table_size = 0
    settings = frames.settings({}) + frames.frame(frames.SETTINGS, frames.ACK, 0)
    conversation = frames.PREFACE + settings + peer.open(1) + data(1, message(b"hello"), end=True)
    for position in range(len(conversation)):
        peer.send(conversation[position : position + 1])
    assert messages(await peer.answer(), 1) == [b"hello"]
    await peer.leave()


async def test_the_end_in_the_middle_of_a_message(peer: Peer) -> None:
    """It is no end in order: INTERNAL, after the messages that were whole."""
    peer.send(peer.open(1), data(1, message(b"whole") + message(b"half")[:7], end=True))
    taken = await peer.answer()
    assert messages(taken, 1) == [b"whole"]
    assert peer.status(taken, 1) == "13"


async def test_trailers_of_the_client_end_the_call(peer: Peer) -> None:
    """They are an end like another."""
    peer.send(peer.open(1), data(1, message(b"a")), peer.open(1, "/ignored", end=True))
    taken = await peer.answer()
    assert messages(taken, 1) == [b"a"]
    assert peer.status(taken, 1) == "0"
    assert reset(taken, 1) is None


async def test_a_call_that_ends_before_its_client_tells_it_so(peer: Peer) -> None:
    """Its trailers are followed by a reset without an error, as RFC 9113 §8.1 asks."""
    peer.send(peer.open(1, "/t/Fail"))
    taken = await peer.answer()
    assert peer.status(taken, 1) == "13"
    assert reset(taken, 1) == frames.NO_ERROR
    assert b"secret" not in b"".join(f.payload for f in taken)


async def test_a_cancellation_of_the_services_own(peer: Peer) -> None:
    """The peer is not left without an answer."""
    peer.send(peer.open(1, "/t/Inner"))
    assert peer.status(await peer.answer(), 1) == "13"


@pytest.mark.parametrize(
    "text", ["", "plain", 'all "of" {it} <so> 100%', "überlang 好" * 400, "\udcff\ud800"]
)
async def test_the_message_of_a_status(peer: Peer, text: str) -> None:
    """It is percent-encoded, cut where it would not fit, and never in the way of the call's end."""
    encoded = text.encode("utf-8", "surrogatepass")
    peer.send(peer.open(1, "/t/Abort"), data(1, message(encoded)))
    ends = [peer.headers(f) for f in await peer.answer() if f.kind == frames.HEADERS]
    assert ends[0]["grpc-status"] == "14"
    shown = unquote(ends[0].get("grpc-message", ""))
    assert shown == encoded.decode("utf-8", "surrogateescape").encode("utf-8", "replace").decode()[:512]


async def test_too_long_and_compressed_messages(peer: Peer) -> None:
    """They end their call with a status, the service is cancelled, the connection goes on."""
    prefix = b"\0" + (MAX_MESSAGE_BYTES + 1).to_bytes(4, "big")
    peer.send(peer.open(1), data(1, prefix), data(1, b"x" * 1000), data(1, b"", end=True))
    peer.send(peer.open(3), data(3, message(b"x", compressed=True), end=True))
    taken = await peer.answer()
    assert peer.status(taken, 1) == "8"
    assert peer.status(taken, 3) == "12"
    assert reset(taken, 3) is None  # it had ended of itself
    await peer.works(5)


async def test_ten_thousand_resets(peer: Peer, room: Room) -> None:
    """They leave no call, no task and no object."""
    peer.send(peer.open(1, end=True))
    await peer.answer()
    before = alive(Call)
    for start in range(3, 20_003, 2_000):
        burst = [
            peer.open(stream_id, "/t/Park") + frames.rst_stream(stream_id, 8)
            for stream_id in range(start, start + 2_000, 2)
        ]
        peer.send(*burst)
        await quiet()
    assert room.parked == 0
    assert peer.connection.calls == 0
    assert not peer.serving.leaving
    assert alive(Call) == before
    assert not serving_tasks()
    assert await peer.answer() == []
    await peer.works(30_001)


async def test_resets_in_every_state(peer: Peer, room: Room) -> None:
    """Before the service has begun, while it reads, while it waits to write, when only the end waits."""
    peer.send(frames.settings({frames.SETTINGS_INITIAL_WINDOW_SIZE: 10}))
    reset_of = {stream_id: frames.rst_stream(stream_id, 8) for stream_id in (1, 3, 5, 7)}
    peer.send(peer.open(1, "/t/Park"), reset_of[1])
    peer.send(peer.open(3, "/t/Read"))
    peer.send(peer.open(5, "/t/Large"), data(5, message(b"1000")))
    peer.send(peer.open(7, "/t/None"))
    await peer.answer()
    peer.send(reset_of[3], reset_of[5], reset_of[7])
    await quiet()
    assert peer.connection.calls == 0
    assert room.read == []
    assert room.cancelled == 0
    peer.send(frames.settings({frames.SETTINGS_INITIAL_WINDOW_SIZE: 65_535}))
    assert sent(await peer.answer(), 5) == b""
    await peer.works(9)


async def test_a_service_that_goes_on_although_cancelled(peer: Peer, room: Room) -> None:
    """It reads the end and cannot write, so that it ends too; the peer sees nothing of it."""
    peer.send(peer.open(1, "/t/Stubborn"))
    await quiet()
    peer.send(frames.rst_stream(1, 8))
    assert await peer.answer() == []
    assert room.cancelled == 1
    assert room.read == [None]


async def test_a_lost_peer_cancels_all(peer: Peer, room: Room) -> None:
    """Every service hears of it."""
    peer.send(*(peer.open(stream_id, "/t/Park") for stream_id in range(1, 200, 2)))
    await quiet()
    assert room.parked == 100
    await peer.lose()
    assert room.parked == 0
    assert room.cancelled == 100


async def test_a_peer_that_sends_no_more_is_lost(peer: Peer, room: Room) -> None:
    """Also when it does not read the last words."""
    peer.send(peer.open(1, "/t/Park"))
    await quiet()
    assert peer.connection.eof_received() is False
    await quiet()
    assert peer.wire.closed
    assert room.cancelled == 1


async def test_a_service_that_does_not_read_stops_the_peer(
    peer: Peer, room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The call's window is filled again only for who has read everything; who sends more breaks it."""
    for module in (http2_call, http2_connection):
        monkeypatch.setattr(module, "WINDOW", 1000, raising=False)
        monkeypatch.setattr(module, "HALF_WINDOW", 500, raising=False)
    peer.send(peer.open(1, "/t/Read"))
    peer.send(data(1, message(b"x" * 595)))
    assert [f.kind for f in await peer.answer()] == [frames.WINDOW_UPDATE]  # read, so filled again
    peer.send(peer.open(3, "/t/Park"))
    peer.send(data(3, message(b"x" * 295)), data(3, message(b"y" * 695)))
    assert await peer.answer() == []
    peer.send(data(3, b"z"))
    assert goaway(await peer.answer()) == (3, frames.FLOW_CONTROL_ERROR)


async def test_a_message_larger_than_the_window(
    peer: Peer, room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It comes whole: the window is filled again while its reader waits for it."""
    for module in (http2_call, http2_connection):
        monkeypatch.setattr(module, "WINDOW", 1000, raising=False)
        monkeypatch.setattr(module, "HALF_WINDOW", 500, raising=False)
    content = message(b"x" * 5000)
    peer.send(peer.open(1, "/t/Read"))
    for start in range(0, len(content), 400):
        peer.send(data(1, content[start : start + 400]))
    filled = sum(frames.read_long(f.payload) for f in await peer.answer() if f.kind == frames.WINDOW_UPDATE)
    assert filled >= len(content) - 500
    assert room.read == [b"x" * 5000]


async def test_the_window_of_the_connection_is_filled_again(
    peer: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also for data of calls that have ended."""
    monkeypatch.setattr(http2_connection, "CONNECTION_WINDOW", 1000)
    peer.send(peer.open(1, end=True))
    await peer.answer()
    peer.send(data(1, b"x" * 300), data(1, b"x" * 300))
    (update,) = await peer.answer()
    assert update == (frames.WINDOW_UPDATE, 0, 0, (600).to_bytes(4, "big"))


async def test_a_call_whose_end_waits(peer: Peer) -> None:
    """Its service is gone, so what comes is passed over, and the end follows the last byte."""
    peer.send(frames.settings({frames.SETTINGS_INITIAL_WINDOW_SIZE: 10}))
    peer.send(peer.open(1, "/t/Impatient"))
    assert peer.status(await peer.answer(), 1) is None
    assert peer.connection.calls == 1
    peer.send(data(1, message(b"more")), data(1, b"\1\1"), peer.open(1, end=True))
    assert await peer.answer() == []
    peer.send(window(1, 14))
    assert peer.status(await peer.answer(), 1) is None
    peer.send(window(1, 1))
    taken = await peer.answer()
    assert peer.status(taken, 1) == "0"
    assert reset(taken, 1) == frames.NO_ERROR
    assert peer.connection.calls == 0
    await peer.works(3)


async def test_a_reset_while_the_end_waits(peer: Peer) -> None:
    """Nothing is left to send."""
    peer.send(frames.settings({frames.SETTINGS_INITIAL_WINDOW_SIZE: 10}))
    peer.send(peer.open(1, "/t/Impatient"))
    await peer.answer()
    peer.send(frames.rst_stream(1, 8), window(1, 1000))
    assert await peer.answer() == []
    assert peer.connection.calls == 0
    await peer.works(3)


async def test_a_peer_that_reads_slowly(peer: Peer) -> None:
    """Messages wait for it, ends and answers to pings do not."""
    peer.connection.pause_writing()
    peer.send(peer.open(1), data(1, message(b"a") + message(b"b")))
    peer.send(frames.frame(frames.PING, 0, 0, bytes(8)))
    taken = await peer.answer()
    assert sent(taken, 1) == b""
    assert any(f.kind == frames.PING for f in taken)
    peer.connection.resume_writing()
    assert messages(await peer.answer(), 1) == [b"a", b"b"]


async def test_a_peer_that_asks_and_never_reads(peer: Peer, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is cut off before the answers fill the memory."""
    peer.connection.pause_writing()
    monkeypatch.setattr(http2_outgoing, "MOST_UNREAD_BYTES", 100_000)
    pings = frames.frame(frames.PING, 0, 0, bytes(8)) * 1000
    for _ in range(100_000 // len(pings)):
        peer.send(pings)
        await quiet()
    assert not peer.wire.closed
    peer.send(pings)
    await quiet()
    assert peer.wire.aborted


async def test_draining(peer: Peer, room: Room) -> None:
    """Calls that were on their way are served, later ones are not; idle once the last has ended."""
    peer.send(peer.open(1, "/t/Read"))
    await peer.answer()
    peer.connection.drain()
    peer.connection.drain()
    taken = await peer.answer()
    assert goaway(taken) == (frames.LARGEST_ID, frames.NO_ERROR)
    ping = next(f for f in taken if f.kind == frames.PING)
    peer.send(peer.open(3, "/t/Read"))
    peer.send(frames.frame(frames.PING, frames.ACK, 0, b"anything"))
    assert goaway(await peer.answer()) is None
    peer.send(frames.frame(frames.PING, frames.ACK, 0, ping.payload) * 2)
    assert goaway(await peer.answer()) == (3, frames.NO_ERROR)
    peer.send(peer.open(5, "/t/Park"), data(5, b"abc"), peer.open(7, "/t/Park"))
    assert await peer.answer() == []
    assert room.parked == 0
    assert not peer.connection.idle
    peer.send(data(1, message(b"x"), end=True), data(3, b"", end=True))
    taken = await peer.answer()
    assert [peer.status(taken, stream_id) for stream_id in (1, 3, 5)] == ["0", "0", None]
    assert peer.connection.idle
    peer.connection.close()
    assert goaway(await peer.answer()) == (3, frames.NO_ERROR)


async def test_a_peer_that_comes_while_the_server_stops(room: Room) -> None:
    """It is told to go elsewhere."""
    peer = Peer(room.services())
    await peer.lose()
    peer = Peer(room.services())
    peer.serving.stopping = True
    peer.connection.connection_made(peer.wire)
    assert goaway(await peer.answer()) == (0, frames.NO_ERROR)
    await peer.leave()


async def test_closing_twice(peer: Peer) -> None:
    """The second time has no effect, nor has draining after it."""
    peer.connection.close()
    peer.connection.close()
    peer.connection.drain()
    taken = await peer.answer()
    assert [f.kind for f in taken] == [frames.GOAWAY]
