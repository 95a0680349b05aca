"""Frames as bytes: the library `hyperframe` and `hpack` read what is written here."""

from __future__ import annotations

import pytest
from hpack import Decoder
from hyperframe.frame import (
    DataFrame,
    Frame,
    GoAwayFrame,
    HeadersFrame,
    RstStreamFrame,
    SettingsFrame,
    WindowUpdateFrame,
)
from hypothesis import given
from hypothesis import strategies as st

from ext_proc.transport.http2 import frames

STREAMS = st.integers(1, frames.LARGEST_ID)
LONGS = st.integers(1, 2**31 - 1)


def parse(data: bytes) -> Frame:
    """Read the one frame that `data` is, by the library."""
    frame, length = Frame.parse_frame_header(memoryview(data[: frames.HEADER_BYTES]))
    assert len(data) == frames.HEADER_BYTES + length
    frame.parse_body(memoryview(data[frames.HEADER_BYTES :]))
    return frame


@given(stream_id=STREAMS, payload=st.binary(max_size=100))
def test_a_message_in_one_frame(stream_id: int, payload: bytes) -> None:
    """It is a DATA frame with the message's prefix, as if put together."""
    data = frames.message_frame(stream_id, payload)
    assert data == frames.frame(frames.DATA, 0, stream_id, frames.message_prefix(payload) + payload)
    parsed = parse(data)
    assert isinstance(parsed, DataFrame)
    assert (parsed.stream_id, parsed.data[5:]) == (stream_id, payload)
    assert parsed.data[:5] == b"\0" + len(payload).to_bytes(4, "big")


def test_lengths_of_three_bytes() -> None:
    """The longest frame that there is keeps its length."""
    header = frames.frame_header(frames.DATA, 1, 3, frames.LARGEST_FRAME)
    assert header == b"\xff\xff\xff\x00\x01\x00\x00\x00\x03"
    large = frames.message_frame(1, b"x" * 70_000)
    assert large[:3] == (70_005).to_bytes(3, "big")
    assert frames.read_header(header, 0) == (0xFFFF, 0xFF, frames.DATA, 1, 3)


@given(stream_id=STREAMS, value=LONGS)
def test_short_frames(stream_id: int, value: int) -> None:
    """Window updates, resets and GOAWAY mean to the library what they mean here."""
    update = parse(frames.window_update(stream_id, value))
    assert isinstance(update, WindowUpdateFrame)
    assert update.window_increment == value
    reset = parse(frames.rst_stream(stream_id, value))
    assert isinstance(reset, RstStreamFrame)
    assert reset.error_code == value
    end = parse(frames.goaway(stream_id, value, "why"))
    assert isinstance(end, GoAwayFrame)
    assert (end.last_stream_id, end.error_code, end.additional_data) == (stream_id, value, b"why")


@given(st.dictionaries(st.integers(1, 6), st.integers(0, 2**32 - 1)))
def test_settings(values: dict[int, int]) -> None:
    """What is written is read again, by the library and here."""
    data = frames.settings(values)
    parsed = parse(data)
    assert isinstance(parsed, SettingsFrame)
    assert parsed.settings == values
    assert dict(frames.read_settings(data[frames.HEADER_BYTES :])) == values


def test_the_reserved_bit_is_not_read() -> None:
    """It is the peer's to set, and means nothing."""
    assert frames.read_long(b"\xff\xff\xff\xff") == 2**31 - 1
    assert frames.read_long(b"\0\0\x80\0\0\x01", 2) == 1


def headers(data: bytes) -> tuple[dict[str, str], bool]:
    """Return the headers of a frame, and whether it ends the stream."""
    parsed = parse(data)
    assert isinstance(parsed, HeadersFrame)
    assert "END_HEADERS" in parsed.flags
    read = {str(name): str(value) for name, value in Decoder().decode(parsed.data)}
    return read, "END_STREAM" in parsed.flags


def test_heads() -> None:
    """A response opens with status and content type."""
    assert headers(frames.head(5)) == ({":status": "200", "content-type": "application/grpc"}, False)


@pytest.mark.parametrize("opened", [False, True])
@pytest.mark.parametrize(
    ("status", "message", "shown"),
    [
        (0, "", None),
        (5, "", None),
        (13, 'plain: a, b = {c} \\ "d" <e> ~\'', 'plain: a, b = {c} \\ "d" <e> ~\''),
        (13, "100 %\r\n", "100 %25%0D%0A"),
        (14, "é 好 😀", "%C3%A9 %E5%A5%BD %F0%9F%98%80"),
        (14, "\udc80", "?"),
        (14, "x" * 1000, "x" * frames.MAX_STATUS_MESSAGE),
    ],
)
def test_trailers(status: int, message: str, shown: str | None, opened: bool) -> None:
    """Status and message, with the response's head where there was none."""
    read, end = headers(frames.trailers(7, status, message, opened=opened))
    assert end
    assert read.pop("grpc-status") == str(status)
    assert read.pop("grpc-message", None) == shown
    assert read == ({} if opened else {":status": "200", "content-type": "application/grpc"})


def test_the_longest_trailers_fit_every_peer() -> None:
    """grpcio takes 8 KiB of headers."""
    assert len(frames.trailers(7, 13, "😀" * 1000, opened=False)) < 8000


@pytest.mark.parametrize(
    ("payload", "bare"),
    [(b"\0", b""), (b"\0abc", b"abc"), (b"\2abc??", b"abc"), (b"\3???", b"")],
)
def test_padding(payload: bytes, bare: bytes) -> None:
    """It is taken off where the flag says that it is there."""
    assert frames.without_padding(frames.PADDED, payload) == bare
    assert frames.without_padding(0, payload) == payload


@pytest.mark.parametrize(
    ("payload", "code"),
    [(b"", frames.FRAME_SIZE_ERROR), (b"\1", frames.PROTOCOL_ERROR), (b"\4abc", frames.PROTOCOL_ERROR)],
)
def test_padding_that_cannot_be(payload: bytes, code: int) -> None:
    """It breaks the protocol."""
    with pytest.raises(frames.ProtocolError) as broken:
        frames.without_padding(frames.PADDED, payload)
    assert broken.value.code == code


def test_priority() -> None:
    """Its five bytes are taken off; fewer break the protocol."""
    assert frames.without_priority(frames.HAS_PRIORITY, b"12345abc") == b"abc"
    assert frames.without_priority(0, b"12345abc") == b"12345abc"
    with pytest.raises(frames.ProtocolError):
        frames.without_priority(frames.HAS_PRIORITY, b"1234")
