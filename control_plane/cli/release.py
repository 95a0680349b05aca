"""`outrigger release`: grey releases, started, watched and led."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from control_plane.cli.apply import send
from control_plane.cli.completion import complete_release
from control_plane.cli.options import DEFAULT_SERVER, Ca, Files, Format, Output, Server, TokenFile

if TYPE_CHECKING:
    from pathlib import Path

    from control_plane.cli.client import Answer

Name = Annotated[
    str, typer.Argument(metavar="NAME", autocompletion=complete_release, help="The Release's name.")
]


def start(
    *,
    files: Files,
    output: Format = Output.TEXT,
    server: Server = DEFAULT_SERVER,
    token_file: TokenFile = None,
    ca: Ca = None,
) -> None:
    """Apply the Releases of the files, all or nothing: each starts at its first step.

    One that has not changed goes on where it is; one that has begins anew.
    """
    from control_plane.cli.changes import headlines, summary  # noqa: PLC0415 - keeps --help quick
    from control_plane.cli.printing import emit, show  # noqa: PLC0415
    from control_plane.cli.session import connect  # noqa: PLC0415

    with connect(server, token_file, ca) as client:
        answer = send(client, files, dry_run=False)
    changes = [one for one in answer.fields().get("changes") or () if isinstance(one, dict)]
    told = f"revision {answer.fields().get('revision')}: {summary(changes)}"
    emit(answer, output, lambda _: show(*headlines(changes), told))


def status(
    *,
    name: Name,
    output: Format = Output.TEXT,
    server: Server = DEFAULT_SERVER,
    token_file: TokenFile = None,
    ca: Ca = None,
) -> None:
    """Show how far a Release is, what it waits for, and what its gates say."""
    from control_plane.cli.session import connect  # noqa: PLC0415 - keeps --help quick

    with connect(server, token_file, ca) as client:
        _tell(client.get("releases", name), output)


def promote(
    *,
    name: Name,
    output: Format = Output.TEXT,
    server: Server = DEFAULT_SERVER,
    token_file: TokenFile = None,
    ca: Ca = None,
) -> None:
    """Take a Release one step on; after its last step everybody is on the new version."""
    _act("promote", name, output, server=server, token_file=token_file, ca=ca)


def pause(
    *,
    name: Name,
    output: Format = Output.TEXT,
    server: Server = DEFAULT_SERVER,
    token_file: TokenFile = None,
    ca: Ca = None,
) -> None:
    """Hold a Release at its share: nothing moves it but people."""
    _act("pause", name, output, server=server, token_file=token_file, ca=ca)


def resume(
    *,
    name: Name,
    output: Format = Output.TEXT,
    server: Server = DEFAULT_SERVER,
    token_file: TokenFile = None,
    ca: Ca = None,
) -> None:
    """Let a paused Release go on."""
    _act("resume", name, output, server=server, token_file=token_file, ca=ca)


def abort(
    *,
    name: Name,
    output: Format = Output.TEXT,
    server: Server = DEFAULT_SERVER,
    token_file: TokenFile = None,
    ca: Ca = None,
) -> None:
    """End a Release: nobody is on the new version any more."""
    _act("abort", name, output, server=server, token_file=token_file, ca=ca)


def _act(
    action: str, name: str, output: Output, *, server: str, token_file: Path | None, ca: Path | None
) -> None:
    from control_plane.cli.session import connect  # noqa: PLC0415 - keeps --help quick

    with connect(server, token_file, ca) as client:
        _tell(client.post("releases", name, action), output)


def _tell(answer: Answer, output: Output) -> None:
    from control_plane.cli.printing import emit, show, table  # noqa: PLC0415 - keeps --help quick
    from control_plane.cli.release_text import gates, headline, likeness  # noqa: PLC0415

    def text(answer: Answer) -> None:
        columns, rows = gates(answer.fields())
        fields = answer.fields()
        show(headline(fields), *likeness(fields), *([table(columns, rows)] if rows else []))

    emit(answer, output, text)
