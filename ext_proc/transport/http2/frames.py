"""HTTP/2 frames as bytes: numbers, and the frames that this server sends (RFC 9113 §4 and §6)."""

from __future__ import annotations

import struct
from typing import Final
from urllib.parse import quote

from hpack import Encoder, NeverIndexedHeaderTuple

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
HEADER_BYTES: Final = 9
MESSAGE_PREFIX_BYTES: Final = 5

DATA: Final = 0x0
HEADERS: Final = 0x1
PRIORITY: Final = 0x2
RST_STREAM: Final = 0x3
SETTINGS: Final = 0x4
PUSH_PROMISE: Final = 0x5
PING: Final = 0x6
GOAWAY: Final = 0x7
WINDOW_UPDATE: Final = 0x8
CONTINUATION: Final = 0x9

END_STREAM: Final = 0x1
ACK: Final = 0x1
END_HEADERS: Final = 0x4
PADDED: Final = 0x8
HAS_PRIORITY: Final = 0x20

SETTINGS_HEADER_TABLE_SIZE: Final = 0x1
SETTINGS_ENABLE_PUSH: Final = 0x2
SETTINGS_MAX_CONCURRENT_STREAMS: Final = 0x3
SETTINGS_INITIAL_WINDOW_SIZE: Final = 0x4
SETTINGS_MAX_FRAME_SIZE: Final = 0x5
SETTINGS_MAX_HEADER_LIST_SIZE: Final = 0x6

NO_ERROR: Final = 0x0
PROTOCOL_ERROR: Final = 0x1
FLOW_CONTROL_ERROR: Final = 0x3
STREAM_CLOSED: Final = 0x5
FRAME_SIZE_ERROR: Final = 0x6
COMPRESSION_ERROR: Final = 0x9
ENHANCE_YOUR_CALM: Final = 0xB

# What a side may assume before the other has spoken.
DEFAULT_WINDOW: Final = 65_535
DEFAULT_MAX_FRAME: Final = 16_384
LARGEST_FRAME: Final = 2**24 - 1
LARGEST_WINDOW: Final = 2**31 - 1
LARGEST_ID: Final = 2**31 - 1

# A status message is for people; the peer takes only so much (grpcio 8 KiB of headers, 12 bytes a character).
MAX_STATUS_MESSAGE: Final = 512
# What gRPC sends as it is: printable ASCII without the percent sign.
_STATUS_MESSAGE_SAFE: Final = " !\"#$&'()*+,/:;<=>?@[\\]^`{|}~"

_HEADER: Final = struct.Struct(">HBBBI")
read_header: Final = _HEADER.unpack_from
"""From bytes and an offset: length >> 8, length & 0xFF, kind, flags, stream id with the reserved bit."""
_DATA_MESSAGE: Final = struct.Struct(">HBBBIBI")
_PAIR: Final = struct.Struct(">HI")
_LONG: Final = struct.Struct(">I")


class ProtocolError(Exception):
    """The peer broke the protocol: the connection ends with `code`."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.code = code


def frame(kind: int, flags: int, stream_id: int, payload: bytes = b"") -> bytes:
    """Return one frame."""
    size = len(payload)
    return _HEADER.pack(size >> 8, size & 0xFF, kind, flags, stream_id) + payload


def frame_header(kind: int, flags: int, stream_id: int, size: int) -> bytes:
    """Return the header of a frame whose payload of `size` bytes follows."""
    return _HEADER.pack(size >> 8, size & 0xFF, kind, flags, stream_id)


def message_frame(stream_id: int, message: bytes) -> bytes:
    """Return one DATA frame that holds one whole gRPC message, not compressed."""
    length = len(message)
    size = length + MESSAGE_PREFIX_BYTES
    return _DATA_MESSAGE.pack(size >> 8, size & 0xFF, DATA, 0, stream_id, 0, length) + message


def message_prefix(message: bytes) -> bytes:
    """Return the five bytes that come before a gRPC message."""
    return b"\0" + _LONG.pack(len(message))


def settings(values: dict[int, int]) -> bytes:
    """Return a SETTINGS frame."""
    return frame(SETTINGS, 0, 0, b"".join(_PAIR.pack(*pair) for pair in values.items()))


def read_settings(payload: bytes) -> list[tuple[int, int]]:
    """Return the identifiers and values of a SETTINGS frame's payload."""
    return list(_PAIR.iter_unpack(payload))


def window_update(stream_id: int, increment: int) -> bytes:
    """Return a WINDOW_UPDATE frame."""
    return frame(WINDOW_UPDATE, 0, stream_id, _LONG.pack(increment))


def rst_stream(stream_id: int, code: int) -> bytes:
    """Return a RST_STREAM frame."""
    return frame(RST_STREAM, 0, stream_id, _LONG.pack(code))


def goaway(last_stream_id: int, code: int, reason: str = "") -> bytes:
    """Return a GOAWAY frame."""
    return frame(GOAWAY, 0, 0, _LONG.pack(last_stream_id) + _LONG.pack(code) + reason.encode())


def read_long(payload: bytes, offset: int = 0) -> int:
    """Return the 31 bits at `offset`, without the reserved one."""
    value: int = _LONG.unpack_from(payload, offset)[0]
    return value & 0x7FFF_FFFF


def without_padding(flags: int, payload: bytes) -> bytes:
    """Return the payload of a DATA or HEADERS frame without its padding.

    Raises:
        ProtocolError: there is more padding than payload.
    """
    if not flags & PADDED:
        return payload
    if not payload:
        raise ProtocolError(FRAME_SIZE_ERROR, "a padded frame says how much padding it has")
    if payload[0] >= len(payload):
        raise ProtocolError(PROTOCOL_ERROR, "more padding than payload")
    return payload[1 : len(payload) - payload[0]]


def without_priority(flags: int, payload: bytes) -> bytes:
    """Return the payload of a HEADERS frame, freed of padding, without its priority.

    Raises:
        ProtocolError: the frame is too short for the priority that it announces.
    """
    if not flags & HAS_PRIORITY:
        return payload
    if len(payload) < 5:
        raise ProtocolError(FRAME_SIZE_ERROR, "a priority has five bytes")
    return payload[5:]


def _block(*headers: tuple[str, str]) -> bytes:
    # Literals only, so that a block means the same at any time and can be made once.
    encoder = Encoder()
    return encoder.encode([NeverIndexedHeaderTuple(*header) for header in headers], huffman=False)


HEAD_BLOCK: Final = _block((":status", "200"), ("content-type", "application/grpc"))
"""The response headers of every call."""

_OK_BLOCK: Final = _block(("grpc-status", "0"))


def head(stream_id: int) -> bytes:
    """Return the HEADERS frame that opens a response."""
    return frame(HEADERS, END_HEADERS, stream_id, HEAD_BLOCK)


def trailers(stream_id: int, status: int, message: str, *, opened: bool) -> bytes:
    """Return the HEADERS frame that ends a response; without a response before it, it is all there is."""
    block = b"" if opened else HEAD_BLOCK
    block += _block(("grpc-status", str(int(status)))) if status else _OK_BLOCK
    if message:
        shown = quote(message[:MAX_STATUS_MESSAGE], safe=_STATUS_MESSAGE_SAFE, errors="replace")
        block += _block(("grpc-message", shown))
    return frame(HEADERS, END_HEADERS | END_STREAM, stream_id, block)
