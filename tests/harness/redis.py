"""A real Redis of this machine for tests: a free port, nothing on disk, killed and frozen at will."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.harness.processes import free_ports, until

START_S: Final = 10
INSTALL_S: Final = 300


class RedisMissingError(Exception):
    """Redis is not installed and cannot be."""


def find_server() -> str:
    """Return the path of `redis-server`; apt-get fetches it when it is absent and may.

    Raises:
        RedisMissingError: there is none.
    """
    found = shutil.which("redis-server")
    if found is None and os.geteuid() == 0 and shutil.which("apt-get"):
        for arguments in (["update"], ["install", "--yes", "--no-install-recommends", "redis-server"]):
            subprocess.run(
                ["apt-get", "-qq", *arguments], check=False, timeout=INSTALL_S, capture_output=True
            )
        found = shutil.which("redis-server")
    if found is None:
        raise RedisMissingError("Redis is not installed (apt-get install redis-server)")
    return found


class RedisServer:
    """One server. `start` after `kill` begins anew on the same port, empty."""

    def __init__(self, binary: str, folder: Path) -> None:
        self._binary = binary
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        self.port: int = free_ports(1)[0]

    @property
    def url(self) -> str:
        """Its address."""
        return f"redis://127.0.0.1:{self.port}/0"

    def start(self) -> None:
        """Start, and wait until it answers."""
        self._process = subprocess.Popen(
            [
                *(self._binary, "--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(self._folder)),
                *("--save", "", "--appendonly", "no", "--daemonize", "no", "--loglevel", "warning"),
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        until(lambda: self.command("PING") == b"+PONG\r\n", START_S, "Redis answers")

    def command(self, *words: str) -> bytes:
        """Send one command by a connection of its own; return the first bytes of the answer, b"" for none."""
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1) as connection:
                parts = [f"*{len(words)}\r\n", *(f"${len(word)}\r\n{word}\r\n" for word in words)]
                connection.sendall("".join(parts).encode())
                return connection.recv(65536)
        except OSError:
            return b""

    def freeze(self) -> None:
        """Stop it as a hung machine stops: connections stay open and nothing answers."""
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let it go on."""
        self._signal(signal.SIGCONT)

    def kill(self) -> None:
        """Kill it."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(number)


@contextmanager
def redis_server(folder: Path) -> Iterator[RedisServer]:
    """Run a server of its own.

    Raises:
        RedisMissingError: Redis is not installed.
    """
    server = RedisServer(find_server(), folder)
    server.start()
    try:
        yield server
    finally:
        server.kill()
