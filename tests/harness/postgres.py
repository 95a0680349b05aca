"""A real PostgreSQL of this machine for tests: a folder of its own, a free port, stopped at will."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from tests.harness.processes import free_ports

START_S: Final = 30
SHARED_MEMORY: Final = Path("/dev/shm")
# PostgreSQL refuses to run as root; whoever of these exists runs it instead.
UNPRIVILEGED: Final = ("postgres", "nobody")
INSTALL_S: Final = 300


class PostgresMissingError(Exception):
    """PostgreSQL is not installed and cannot be."""


def find_binaries(*, install: bool = False) -> Path:
    """Return the folder that holds `initdb` and `postgres`; `install` has apt-get fetch it if it may.

    Raises:
        PostgresMissingError: there is none.
    """
    on_path = shutil.which("initdb")
    if on_path:
        return Path(on_path).resolve().parent
    installed = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=_major)
    if installed:
        return installed[-1].parent
    if install and os.geteuid() == 0 and shutil.which("apt-get"):
        for arguments in (["update"], ["install", "--yes", "--no-install-recommends", "postgresql"]):
            subprocess.run(
                ["apt-get", "-qq", *arguments], check=False, timeout=INSTALL_S, capture_output=True
            )
        return find_binaries()
    raise PostgresMissingError("PostgreSQL is not installed (apt-get install postgresql)")


def _major(initdb: Path) -> float:
    text = initdb.parent.parent.name
    return float(text) if text.replace(".", "", 1).isdigit() else 0


class PostgresServer:
    """One server with its own folder and port. Its `url` holds a password, as real ones do."""

    password: Final = "pg-password-marker"

    def __init__(self, binaries: Path, folder: Path) -> None:
        self.folder = folder
        self._binaries = binaries
        self._data = folder / "data"
        self._log = folder / "log"
        self._as_other: list[str] = []
        self._process: subprocess.Popen[bytes] | None = None
        self._schemas = 0
        self.port: int = free_ports(1)[0]
        if os.geteuid() == 0:
            user = next(name for name in UNPRIVILEGED if _exists(name))
            shutil.chown(folder, user)
            self._as_other = ["setpriv", f"--reuid={user}", "--clear-groups", "--"]
        secret = folder / "password"
        secret.write_text(self.password)
        if self._as_other:
            shutil.chown(secret, user)
        self._run(
            "initdb", "-D", str(self._data), "-U", "outrigger", "-A", "scram-sha-256", f"--pwfile={secret}",
            "--encoding=UTF8", "--no-sync",
        )  # fmt: skip

    def url(self, database: str = "postgres") -> str:
        """Return the URL of a database."""
        return f"postgresql://outrigger:{self.password}@127.0.0.1:{self.port}/{database}"

    def start(self) -> None:
        """Start the server and wait until it answers."""
        options = ["-c", f"port={self.port}", "-c", "listen_addresses=127.0.0.1", "-c", "fsync=off"]
        options += ["-c", "unix_socket_directories=", "-c", "max_connections=50"]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [*self._as_other, str(self._binaries / "postgres"), "-D", str(self._data), *options],
                stdout=log,
                stderr=log,
                start_new_session=True,
                cwd="/",
            )
        deadline = time.monotonic() + START_S
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"PostgreSQL did not start:\n{self._log.read_text()[-4000:]}")
            time.sleep(0.05)

    def stop(self) -> None:
        """Stop the server at once, connections and all."""
        if self._process is not None:
            self.thaw()
            self._process.send_signal(signal.SIGQUIT)
            self._process.wait(START_S)
            self._process = None

    def freeze(self) -> None:
        """Have the server answer nobody, its connections open."""
        self._signal_all(signal.SIGSTOP)

    def thaw(self) -> None:
        """Have the server go on."""
        self._signal_all(signal.SIGCONT)

    def new_database(self) -> str:
        """Make an empty schema and return a URL that shows nothing else: a database, but made quickly."""
        self._schemas += 1
        name = f"test_{self._schemas}"
        environment = {**os.environ, "PGPASSWORD": self.password}
        command = [
            str(self._binaries / "psql"), "-h", "127.0.0.1", "-p", str(self.port), "-U", "outrigger",
            "-d", "postgres", "-qc", f"CREATE SCHEMA {name}",
        ]  # fmt: skip
        subprocess.run(command, check=True, env=environment, capture_output=True, timeout=START_S, cwd="/")
        return f"{self.url()}?search_path={name}"

    def _signal_all(self, number: int) -> None:
        if self._process is None:
            return
        own = str(self._process.pid)
        command = ["ps", "-o", "pid=", "--ppid", own]
        children = subprocess.run(command, check=False, capture_output=True, text=True).stdout.split()
        for pid in (own, *children):
            with suppress(ProcessLookupError):
                os.kill(int(pid), number)

    def _answers(self) -> bool:
        ready = [str(self._binaries / "pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(self.port)]
        return subprocess.run(ready, check=False, timeout=START_S).returncode == 0

    def _run(self, tool: str, *arguments: str) -> None:
        command = [*self._as_other, str(self._binaries / tool), *arguments]
        subprocess.run(command, check=True, capture_output=True, timeout=START_S, cwd="/")


def _exists(user: str) -> bool:
    return subprocess.run(["id", "-u", user], check=False, capture_output=True).returncode == 0


@contextmanager
def postgres_server(*, install: bool = False) -> Iterator[PostgresServer]:
    """Run a server in a folder of its own, until the block ends.

    Raises:
        PostgresMissingError: PostgreSQL is not installed.
    """
    binaries = find_binaries(install=install)
    memory = SHARED_MEMORY if os.access(SHARED_MEMORY, os.W_OK) else None
    folder = Path(tempfile.mkdtemp(prefix="outrigger-postgres-", dir=memory))
    try:
        server = PostgresServer(binaries, folder)
        server.start()
        try:
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
