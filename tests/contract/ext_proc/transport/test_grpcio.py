"""What only the server over grpcio does."""

from __future__ import annotations

from pathlib import Path

import pytest
import structlog

from ext_proc.transport.grpcio import MAX_PENDING_STREAMS, GrpcioServer, options


def test_options_let_bursts_in() -> None:
    """No stream is refused for its number, and messages may be as long as was said."""
    given = dict(options(123))
    assert given["grpc.max_receive_message_length"] == given["grpc.max_send_message_length"] == 123
    assert given["grpc.server.max_pending_requests"] == MAX_PENDING_STREAMS


async def test_a_socket_that_cannot_be() -> None:
    """OSError says so."""
    server = GrpcioServer({}, Path("/nowhere/s.sock"), 1000, structlog.get_logger())
    with pytest.raises(OSError, match="cannot listen"):
        await server.start()
    await server.stop(0)
