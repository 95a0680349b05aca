"""`outrigger token`: who may use the API, and sidecars that may join."""

from __future__ import annotations

import getpass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated

import typer

from control_plane.cli.options import DEFAULT_SERVER, Ca, Format, Output, Server, TokenFile


class Role(StrEnum):
    """What a token may do."""

    VIEWER = "viewer"
    EDITOR = "editor"
    ADMIN = "admin"
    SIDECAR = "sidecar"


def create(
    *,
    role: Annotated[Role, typer.Option("--role", help="What it may do; sidecar: join the push stream only.")],
    name: Annotated[
        str | None, typer.Option("--name", metavar="NAME", help="What audit rows call it.")
    ] = None,
    scopes: Annotated[
        list[str] | None, typer.Option("--scope", metavar="SCOPE", help="Only this (repeat); else all.")
    ] = None,
    expires: Annotated[
        str | None, typer.Option("--expires", metavar="WHEN", help="30d, 24h, or a time.")
    ] = None,
    output: Format = Output.TEXT,
    server: Server = DEFAULT_SERVER,
    token_file: TokenFile = None,
    ca: Ca = None,
) -> None:
    """Make a token and print it, alone, on stdout. It is shown this once; the server keeps a hash."""
    from control_plane.cli.printing import emit, say, write  # noqa: PLC0415 - keeps --help quick
    from control_plane.cli.session import connect  # noqa: PLC0415
    from control_plane.cli.times import moment  # noqa: PLC0415

    body = {"name": name or f"{role}-{_user()}", "role": role.value, "scopes": scopes or []}
    if expires is not None:
        body["expiresAt"] = moment(expires, datetime.now(UTC))
    with connect(server, token_file, ca) as client:
        answer = client.post("tokens", body=body)
    made = answer.fields()
    emit(answer, output, lambda _: write(str(made.get("token"))))
    if output is Output.TEXT:
        say(f"token {made.get('id')} ({made.get('role')}) is shown this once; export it as OUTRIGGER_TOKEN")


def list_tokens(
    *,
    output: Format = Output.TEXT,
    server: Server = DEFAULT_SERVER,
    token_file: TokenFile = None,
    ca: Ca = None,
) -> None:
    """List the tokens, never their text."""
    from control_plane.cli.columns import cells  # noqa: PLC0415 - keeps --help quick
    from control_plane.cli.printing import emit, show, table  # noqa: PLC0415
    from control_plane.cli.session import connect  # noqa: PLC0415

    with connect(server, token_file, ca) as client:
        answer = client.get("tokens")
    emit(answer, output, lambda answer: show(table(*cells("tokens", answer.items()))))


def revoke(
    *,
    token_id: Annotated[str, typer.Argument(metavar="ID", help="As outrigger token list shows it.")],
    output: Format = Output.TEXT,
    server: Server = DEFAULT_SERVER,
    token_file: TokenFile = None,
    ca: Ca = None,
) -> None:
    """Revoke a token; from then on it is refused everywhere."""
    from control_plane.cli.printing import emit, show  # noqa: PLC0415 - keeps --help quick
    from control_plane.cli.session import connect  # noqa: PLC0415

    with connect(server, token_file, ca) as client:
        answer = client.delete("tokens", token_id)
    emit(answer, output, lambda _: show(f"token {token_id} revoked"))


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user may have no name
        return "cli"
