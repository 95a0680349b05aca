"""One call to ourselves before the first one that counts.

The client's libraries load parts of themselves at their first use: a hundred milliseconds that would look
like a cold provider.
"""

from __future__ import annotations

import asyncio
from typing import Final

from control_plane.tools.diagnose.failures import CallFailed
from control_plane.tools.diagnose.target import Target
from control_plane.tools.diagnose.wire import Wire

_BODY: Final = b'{"choices": [{"message": {"content": "hi"}, "finish_reason": "stop"}], "usage": {}}'
_ANSWER: Final = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (
    len(_BODY),
    _BODY,
)
_TIMEOUT_S: Final = 5.0


async def rehearse() -> bool:
    """Call a server of our own on loopback, twice; return whether it answered, which nothing depends on."""
    server = await asyncio.start_server(_answer, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        wire = Wire(Target.parse(f"http://127.0.0.1:{port}", "rehearsal"), _TIMEOUT_S)
        try:
            async with wire.connections() as connections:
                for _ in range(2):
                    await wire.call(connections, {})
        except CallFailed:
            return False
    return True


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while await reader.readuntil(b"\r\n\r\n"):
            await reader.readexactly(2)  # the body: {}
            writer.write(_ANSWER)
            await writer.drain()
    except (asyncio.IncompleteReadError, OSError):
        writer.close()
