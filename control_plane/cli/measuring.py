"""What the commands that measure share: headers and keys, a bar that shows progress, an end by Ctrl-C."""

from __future__ import annotations

import asyncio
import re
import resource
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from control_plane.cli.apply import seconds
from control_plane.cli.failures import CommandFailed
from control_plane.tools.load.calls import WrongUrl, base_url

if TYPE_CHECKING:
    from control_plane.tools.load.running import Watch

MOST_FILES: Final = 65_536
KEY_VARIABLE: Final = "OPENAI_API_KEY"
_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


def target_url(text: str) -> str:
    """Return the base URL of `--url`.

    Raises:
        BadParameter: it cannot be called.
    """
    try:
        return base_url(text)
    except WrongUrl as error:
        raise typer.BadParameter(str(error)) from None


Url = Annotated[
    str,
    typer.Option(
        "--url", metavar="URL", callback=target_url, help="A sidecar's or a provider's base URL, with /v1."
    ),
]
ModelName = Annotated[str, typer.Option("--model", metavar="NAME", help="The model to ask.")]
Headers = Annotated[
    list[str] | None,
    typer.Option(
        "--header", metavar="'NAME: VALUE'", help="A header to send (repeat). Reports never show it."
    ),
]
TargetCa = Annotated[
    Path | None,
    typer.Option("--target-ca", metavar="FILE", help="Authority of the target's certificate (PEM)."),
]
Timeout = Annotated[
    Any,
    typer.Option("--timeout", metavar="DURATION", parser=seconds, help="How long a call may take."),
]
Html = Annotated[
    Path | None, typer.Option("--html", metavar="FILE", help="Also write the report as one HTML page.")
]


def sent_headers(given: Sequence[str], environment: Mapping[str, str]) -> dict[str, str]:
    """Return the headers of `--header`, and the key of `OPENAI_API_KEY` where none of them is one.

    Raises:
        BadParameter: one is no header. Its value is not in the message.
        CommandFailed: the key can be in no header.
    """
    headers: dict[str, str] = {}
    for text in given:
        name, colon, value = (part.strip() for part in text.partition(":"))
        if not colon or not _TOKEN.fullmatch(name) or not value.isascii() or not value.isprintable():
            raise typer.BadParameter("is not 'name: value'", param_hint="--header")
        headers[name.lower()] = value
    key = environment.get(KEY_VARIABLE, "").strip()
    if key and "authorization" not in headers:
        if not key.isascii() or not key.isprintable():
            raise CommandFailed(f"{KEY_VARIABLE} holds what no key can; set it anew, or unset it")
        headers["authorization"] = f"Bearer {key}"
    return headers


def writable(path: Path | None) -> None:
    """Check before a long run that a report can be written to `path`.

    Raises:
        BadParameter: its folder is not there.
    """
    if path is not None and (path.is_dir() or not path.absolute().parent.is_dir()):
        raise typer.BadParameter(f"{path} cannot be a file: is its folder there?", param_hint="--html")


def write_page(path: Path, text: str) -> None:
    """Write a page.

    Raises:
        CommandFailed: it cannot be written.
    """
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        reason = (error.strerror or "no reason given").lower()
        raise CommandFailed(
            f"the file {path} cannot be written ({reason}); name another with --html"
        ) from None


def allow_connections() -> None:
    """Let this process, and those it starts, have as many connections as the machine allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, MOST_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def stop_on_signals() -> asyncio.Event:
    """Return an event that the first Ctrl-C (or SIGTERM) sets in the running loop; the second one kills."""
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()

    def halt() -> None:
        stop.set()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, halt)
    return stop


@contextmanager
def progress(what: str, total: int | None) -> Iterator[Watch | None]:
    """Show a bar on stderr while the block runs, and yield what moves it; None when nobody watches.

    `total` is how many calls there will be, None when only the time tells.
    """
    from rich.console import Console  # noqa: PLC0415 - keeps --help quick

    console = Console(stderr=True)
    if not console.is_terminal:
        yield None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn  # noqa: PLC0415

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[told]}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(what, total=total, told="")

        def watch(ended: int, errors: int) -> None:
            bar.update(task, completed=ended, told=f"{errors} errors" if errors else "")

        yield watch
