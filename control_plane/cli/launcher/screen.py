"""What the user sees: progress and the ready panel on stdout, warnings and logs on stderr."""

from __future__ import annotations

import contextlib
import os
import queue
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from rich.console import Console
from rich.status import Status

from control_plane.cli.launcher.settings import LaunchSettings, address, reachable
from control_plane.cli.options import DEFAULT_SERVER
from control_plane.settings import ADMIN_TOKEN_LINE, NOT_APPLIED_LINE

MAX_QUEUED: Final = 10_000
FLUSH_S: Final = 1.0
MAX_NOTICES: Final = 20


@contextlib.contextmanager
def log_writer(descriptor: int) -> Iterator[Callable[[str], None]]:
    """Write lines to a file descriptor from a thread, so that a reader who stops does not stop the launcher.

    Lines beyond what the queue holds are dropped and counted. No Python stream is used: a thread that hangs
    in one would hold its lock when the interpreter ends.
    """
    lines: queue.Queue[str | None] = queue.Queue(MAX_QUEUED)
    abandoned = threading.Event()
    dropped = 0

    def write(line: str) -> None:
        nonlocal dropped
        try:
            if dropped:
                lines.put_nowait(f"{dropped} log lines were dropped: nobody reads them fast enough")
                dropped = 0
            lines.put_nowait(line)
        except queue.Full:
            dropped += 1

    def drain() -> None:
        while (line := lines.get()) is not None and not abandoned.is_set():
            left = f"{line}\n".encode(errors="replace")
            with contextlib.suppress(OSError):  # the terminal is gone; the mesh goes on
                while left:
                    left = left[os.write(descriptor, left) :]

    thread = threading.Thread(target=drain, name="log", daemon=True)
    thread.start()
    try:
        yield write
    finally:
        with contextlib.suppress(queue.Full):
            lines.put_nowait(None)
        thread.join(FLUSH_S)
        # One that hangs in a write is not to go on with the rest if it ever comes back.
        abandoned.set()


def warn(sentences: Sequence[str]) -> None:
    """Print warnings to stderr, one a line."""
    for sentence in sentences:
        print(f"warning: {sentence}", file=sys.stderr, flush=True)


def first_notices(sentences: Sequence[str]) -> list[str]:
    """Return what to tell of fields that are warned of: the first of them, and how many there are beside."""
    left = len(sentences) - MAX_NOTICES
    if left <= 0:
        return list(sentences)
    more = f"{left} more of these; outrigger validate names them"
    return [*sentences[:MAX_NOTICES], more]


class Screen:
    """The user's view of one launch. On a terminal it moves; elsewhere it is plain lines."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._status: Status | None = None
        self._token_shown = False

    def progress(self, text: str) -> None:
        """Say what is being waited for."""
        if self._console.is_terminal:
            if self._status is None:
                self._status = self._console.status(text)
                self._status.start()
            self._status.update(text)

    def line(self, text: str) -> None:
        """Print one line that stays."""
        self.settle()
        self._print(text)

    def hear(self, line: str) -> None:
        """Show at once what a process tells the launcher: a new admin token, why files were left out."""
        if line.startswith(ADMIN_TOKEN_LINE):
            self._token_shown = True
            self.line("the API's admin token, shown only this once:")
            self.line(f"  export OUTRIGGER_TOKEN={line.removeprefix(ADMIN_TOKEN_LINE)}")
        elif line.startswith(NOT_APPLIED_LINE):
            self.settle()
            warn([line])

    def ready(self, settings: LaunchSettings, models: Sequence[str]) -> None:
        """Print how to use the mesh and how to stop it."""
        self.settle()
        lines = ready_lines(settings, models, token_shown=self._token_shown)
        # Rules, no frame: the lines are there to be copied.
        if self._console.is_terminal:
            self._console.rule("Outrigger is ready")
            self._print("\n".join(lines))
            self._console.rule()
        else:
            self._print("\n".join(["Outrigger is ready", *lines]))

    def settle(self) -> None:
        """End what moves."""
        if self._status is not None:
            self._status.stop()
            self._status = None

    def _print(self, text: str) -> None:
        # Rich ends the program when nobody reads its output any more; a mesh goes on.
        with contextlib.suppress(OSError, SystemExit):
            self._console.print(text, markup=False, highlight=False, soft_wrap=True)


def ready_lines(settings: LaunchSettings, models: Sequence[str], *, token_shown: bool = False) -> list[str]:
    """Return the lines of the ready panel. `token_shown`: a new admin token stands above it."""
    host = reachable(settings.bind)
    proxy = f"http://{address(host, settings.proxy_port)}/v1"
    lines = [f"proxy      {proxy}"]
    if settings.api_port is not None:
        lines.append(f"dashboard  http://{address(host, settings.api_port)}/")
        lines.append(f"API        http://{address(host, settings.api_port)}/docs")
    lines.append(f"metrics    http://{address(host, settings.metrics_port)}/metrics")
    if settings.demo:
        lines.append("demo       answers come from the built-in simulated provider; use -f FILE for your own")
    lines += ["", "Point any OpenAI client at it:", f"  export OPENAI_BASE_URL={proxy}"]
    if settings.demo:
        lines.append("  export OPENAI_API_KEY=demo")
    model = models[0] if models else "gpt-4o-mini"
    key = "demo" if settings.demo else "$OPENAI_API_KEY"
    body = f'{{"model": "{model}", "messages": [{{"role": "user", "content": "Hello"}}]}}'
    lines += [
        "or try:",
        f"  curl {proxy}/chat/completions -H 'content-type: application/json' \\",
        f'    -H "authorization: Bearer {key}" \\',
        f"    -d '{body}'",
        *_managing(settings, token_shown),
        "",
        "Ctrl-C stops it.",
    ]
    return lines


def _managing(settings: LaunchSettings, token_shown: bool) -> list[str]:
    """Return how the commands reach the API. No token is in these lines."""
    if settings.api_port is None:
        return []
    server = f"http://{address(reachable(settings.bind), settings.api_port)}"
    lines = ["", "Manage it from another shell with outrigger status, get, apply, …:"]
    if server != DEFAULT_SERVER:
        lines.append(f"  export OUTRIGGER_SERVER={server}")
    if token_shown:
        return [*lines, "  export OUTRIGGER_TOKEN=…   (the one shown above)"]
    whose = "the one of --admin-token" if settings.admin_token else "the admin token of the first start"
    return [*lines, f"  export OUTRIGGER_TOKEN=…   ({whose})"]
