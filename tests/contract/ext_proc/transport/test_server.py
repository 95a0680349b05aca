"""The processor's socket."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import structlog

from ext_proc.pipeline import Pipeline
from ext_proc.snapshots import SnapshotHolder
from ext_proc.transport.processor import ExternalProcessor
from ext_proc.transport.server import ProcessorServer
from tests.unit.ext_proc.exchanges import Counted


async def test_a_socket_left_by_a_killed_processor_is_taken_over() -> None:
    """And removed at the end."""
    with TemporaryDirectory(prefix="or-") as folder:
        socket = Path(folder) / "p.sock"
        socket.write_text("left over")
        server = ProcessorServer(
            ExternalProcessor(Pipeline((), SnapshotHolder(), Counted()), structlog.get_logger()), socket
        )
        await server.start()
        assert socket.is_socket()
        await server.stop(0)
        assert not socket.exists()
