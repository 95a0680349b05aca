"""One process kept up: started, its output passed on, started again when it ends, stopped in the end.

A child dies with the launcher (PR_SET_PDEATHSIG), and is a session of its own, so that a Ctrl-C in the
terminal reaches the launcher alone, which stops the children in order.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import signal
from collections.abc import Callable
from typing import Final

from control_plane.cli.launcher.backoff import Backoff
from control_plane.cli.launcher.plan import ChildSpec, Role
from control_plane.cli.text import printable

PR_SET_PDEATHSIG: Final = 1
MAX_LINE: Final = 64 * 1024
OUTPUT_AFTER_END_S: Final = 0.5
KILL_AGAIN_S: Final = 0.2

Write = Callable[[str], None]


def unheard(line: str) -> None:
    """Take a line and do nothing with it."""


def dies_with(parent: int) -> Callable[[], None]:
    """Return what a child runs between fork and exec so that it dies when process `parent` does."""
    prctl = ctypes.CDLL(None).prctl

    def prepare() -> None:
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # the parent died in between
            os._exit(1)

    return prepare


class Child:
    """Keeps one process up from `start` to `stop`.

    `write` takes each line of its stderr, `hear` each line of the stdout of one that speaks. After `settle`
    it is started again by the command line that its spec has for that.
    """

    def __init__(self, spec: ChildSpec, write: Write, hear: Write = unheard) -> None:
        self.spec = spec
        self.backoff = Backoff()
        self.last_line = ""
        self._write = write
        self._hear = hear
        self._command = spec.command
        self._stopping = asyncio.Event()
        self._process: asyncio.subprocess.Process | None = None
        self._keeping: asyncio.Task[None] | None = None

    def __repr__(self) -> str:
        return f"<Child {self.spec.name} pid {self.pid}>"

    @property
    def pid(self) -> int | None:
        """The process id, None between two runs."""
        running = self._process is not None and self._process.returncode is None
        return self._process.pid if running and self._process else None

    def start(self) -> None:
        """Begin to keep the process up."""
        self._keeping = asyncio.create_task(self._keep_up(), name=self.spec.name)

    def settle(self) -> None:
        """Take the command line for starting again from now on."""
        self._command = self.spec.again or self.spec.command

    async def stop(self, grace_s: float) -> None:
        """End the process: SIGTERM, and SIGKILL for its whole session after `grace_s` seconds."""
        self._stopping.set()
        if self._keeping is None:
            return
        self.signal(signal.SIGTERM)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(asyncio.shield(self._keeping), grace_s)
        while not self._keeping.done():  # again, for a process that was being started just now
            self.signal(signal.SIGKILL)
            await asyncio.wait((self._keeping,), timeout=KILL_AGAIN_S)
        self._keeping.result()

    def signal(self, number: signal.Signals) -> None:
        """Send `number` to the process and, with SIGKILL, to whatever it has started."""
        pid = self.pid
        if pid is None:
            return
        with contextlib.suppress(ProcessLookupError):
            if number is signal.SIGKILL:
                os.killpg(pid, number)
            else:
                os.kill(pid, number)

    async def _keep_up(self) -> None:
        loop = asyncio.get_running_loop()
        while not self._stopping.is_set():
            began = loop.time()
            status = await self._run_once()
            if self._stopping.is_set():
                return
            delay_s = self.backoff.delay_s(loop.time() - began)
            self._write(f"{self.spec.name} {ending(status)}; starting it again")
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), delay_s)

    async def _run_once(self) -> int:
        try:
            process = await asyncio.create_subprocess_exec(
                *self._command,
                stdin=asyncio.subprocess.DEVNULL,
                # Logs go to stderr; stdout is ours, and hears only who has something to say.
                stdout=asyncio.subprocess.PIPE if self.spec.speaks else asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.PIPE,
                env=dict(self.spec.environment),
                start_new_session=True,
                preexec_fn=dies_with(os.getpid()),
            )
        except OSError as error:
            self.last_line = f"cannot be started: {error.strerror}"
            self._write(f"{self.spec.name} {self.last_line}")
            return 1
        self._process = process
        if self._stopping.is_set():
            self.signal(signal.SIGTERM)
        passing = [
            asyncio.create_task(_each_line(stream, take))
            for stream, take in ((process.stderr, self._pass_line), (process.stdout, self._hear))
            if stream is not None
        ]
        status = await process.wait()
        # A grandchild may hold the pipe open; it is not waited for.
        await asyncio.wait(passing, timeout=OUTPUT_AFTER_END_S)
        for task in passing:
            task.cancel()
        await asyncio.gather(*passing, return_exceptions=True)
        return status

    def _pass_line(self, text: str) -> None:
        self.last_line = text
        if self._stopping.is_set() and self.spec.role is Role.ENVOY:
            return  # that its peers go away is no news to a user who stops the mesh
        # JSON lines name their process themselves.
        self._write(text if text.startswith("{") else f"{self.spec.name}: {text}")


async def _each_line(stream: asyncio.StreamReader, take: Write) -> None:
    """Give each line of `stream` that is not empty to `take`, printable; one beyond the bound in pieces."""

    def tell(line: bytes) -> None:
        if text := printable(line.decode(errors="replace").rstrip()):
            take(text)

    pending = b""
    while chunk := await stream.read(MAX_LINE):
        *lines, pending = (pending + chunk).split(b"\n")
        if len(pending) > MAX_LINE:
            lines, pending = [*lines, pending], b""
        for line in lines:
            tell(line)
    tell(pending)


def ending(status: int) -> str:
    """Say in words how a process ended."""
    if status < 0:
        with contextlib.suppress(ValueError):
            return f"was ended by {signal.Signals(-status).name}"
    return f"ended with status {status}"
