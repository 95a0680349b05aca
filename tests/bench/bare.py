"""The lowest floor's ext_proc server: `python -m tests.bench.bare SOCKET pass|answer`.

A loop over one trusted peer's HTTP/2 frames that knows the four messages by their first byte and replies with
constants: no header is decoded, no message parsed, no stream checked. Nothing that decides can be faster.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from typing import Final, cast

import uvloop

from tests.bench.floor import ANSWER, OVERRIDE_REPLY, REPLIES

_PREFACE: Final = len(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
_DATA, _HEADERS, _RESET, _SETTINGS, _PING = 0, 1, 3, 4, 6
_ACK, _END_HEADERS, _END_BOTH = 0x1, 0x4, 0x5
_MANY: Final = (1 << 31) - 1


def _frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return len(payload).to_bytes(3) + bytes((kind, flags)) + stream.to_bytes(4) + payload


def _literal(name: bytes, value: bytes) -> bytes:
    return b"\0" + bytes((len(name),)) + name + bytes((len(value),)) + value


# SETTINGS: as many streams, and as much in flight, as there can be; and the same for the whole connection.
_HELLO: Final = _frame(
    _SETTINGS, 0, 0, b"\0\x03" + (100_000).to_bytes(4) + b"\0\x04" + _MANY.to_bytes(4)
) + _frame(8, 0, 0, (_MANY - 65535).to_bytes(4))
_OPENING: Final = b"\x88" + _literal(b"content-type", b"application/grpc")
_TRAILERS: Final = _literal(b"grpc-status", b"0")
_TOPPED_UP_AT: Final = 1 << 30


class Bare(asyncio.Protocol):
    """One connection. `at_body` is the reply to a request's body, and whether it ends the stream."""

    def __init__(self, at_body: bytes, ends: bool) -> None:
        self._at_body = at_body
        self._ends = ends
        self._kept = bytearray()
        self._to_skip = _PREFACE
        self._messages: dict[int, bytearray] = {}
        self._taken = 0
        # By the first byte of a ProcessingRequest: the tag of the one field that is set.
        self._replies = {
            0x12: _message(REPLIES["request_headers"].SerializeToString()),
            0x1A: _message(OVERRIDE_REPLY.SerializeToString()),
            0x22: at_body,
            0x2A: _message(REPLIES["response_body"].SerializeToString()),
        }

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Say the settings."""
        # uvloop's transports are no subclass of asyncio's.
        self._transport = cast(asyncio.Transport, transport)
        self._transport.write(_HELLO)

    def data_received(self, data: bytes) -> None:
        """Answer every whole frame."""
        kept = self._kept
        kept += data
        if len(kept) < self._to_skip:
            return
        at, self._to_skip = self._to_skip, 0
        out: list[bytes] = []
        while len(kept) - at >= 9:
            end = at + 9 + int.from_bytes(kept[at : at + 3])
            if end > len(kept):
                break
            self._take(
                kept[at + 3], kept[at + 4], int.from_bytes(kept[at + 5 : at + 9]), kept[at + 9 : end], out
            )
            at = end
        del kept[:at]
        if out:
            self._transport.write(b"".join(out))

    def _take(self, kind: int, flags: int, stream: int, payload: bytearray, out: list[bytes]) -> None:
        if kind == _DATA:
            self._data(stream, payload, bool(flags & 1), out)
        elif kind == _HEADERS:
            self._messages[stream] = bytearray()
            out.append(_frame(_HEADERS, _END_HEADERS, stream, _OPENING))
        elif kind == _SETTINGS and not flags & _ACK:
            out.append(_frame(_SETTINGS, _ACK, 0, b""))
        elif kind == _PING and not flags & _ACK:
            out.append(_frame(_PING, _ACK, 0, bytes(payload)))
        elif kind == _RESET:
            self._messages.pop(stream, None)

    def _data(self, stream: int, payload: bytearray, ends: bool, out: list[bytes]) -> None:
        self._taken += len(payload)
        if self._taken > _TOPPED_UP_AT:
            out.append(_frame(8, 0, 0, self._taken.to_bytes(4)))
            self._taken = 0
        message = self._messages.get(stream)
        if message is None:
            return
        message += payload
        while len(message) >= 5 and len(message) >= (end := 5 + int.from_bytes(message[1:5])):
            first = message[5]
            del message[:end]
            out.append(_frame(_DATA, 0, stream, self._replies[first]))
            if first == 0x22 and self._ends:
                ends = True
        if ends:
            del self._messages[stream]
            out.append(_frame(_HEADERS, _END_BOTH, stream, _TRAILERS))


def _message(content: bytes) -> bytes:
    return b"\0" + len(content).to_bytes(4) + content


async def serve(socket_path: str, answers: bool) -> None:
    """Serve until SIGTERM."""
    at_body = _message((ANSWER if answers else REPLIES["request_body"]).SerializeToString())
    loop = asyncio.get_running_loop()
    server = await loop.create_unix_server(lambda: Bare(at_body, answers), socket_path)
    stopped = asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, stopped.set)
    print("ready", flush=True)
    await stopped.wait()
    server.close()


if __name__ == "__main__":
    uvloop.run(serve(sys.argv[1], sys.argv[2] == "answer"))
