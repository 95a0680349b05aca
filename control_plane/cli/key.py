"""`outrigger key`: the keys by which a Consumer is recognised."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from control_plane.cli.completion import complete_consumer
from control_plane.cli.options import DEFAULT_SERVER, Ca, Format, Output, Server, TokenFile

if TYPE_CHECKING:
    from control_plane.cli.client import Answer

Consumer = Annotated[
    str, typer.Argument(metavar="CONSUMER", autocompletion=complete_consumer, help="The Consumer's name.")
]
KeyId = Annotated[str, typer.Argument(metavar="ID", help="As outrigger key list shows it.")]


def create(
    *,
    consumer: Consumer,
    expires: Annotated[
        str | None, typer.Option("--expires", metavar="WHEN", help="30d, 24h, or a time; else never.")
    ] = None,
    output: Format = Output.TEXT,
    server: Server = DEFAULT_SERVER,
    token_file: TokenFile = None,
    ca: Ca = None,
) -> None:
    """Make a key and print it, alone, on stdout. It is shown this once; the server keeps a hash."""
    from control_plane.cli.session import connect  # noqa: PLC0415 - keeps --help quick
    from control_plane.cli.times import moment  # noqa: PLC0415

    body = {"expiresAt": moment(expires, datetime.now(UTC))} if expires is not None else None
    with connect(server, token_file, ca) as client:
        _show_once(client.post("consumers", consumer, "keys", body=body), output)


def list_keys(
    *,
    consumer: Consumer,
    output: Format = Output.TEXT,
    server: Server = DEFAULT_SERVER,
    token_file: TokenFile = None,
    ca: Ca = None,
) -> None:
    """List a Consumer's keys by their last characters, never the keys."""
    from control_plane.cli.columns import cells  # noqa: PLC0415 - keeps --help quick
    from control_plane.cli.printing import emit, show, table  # noqa: PLC0415
    from control_plane.cli.session import connect  # noqa: PLC0415

    with connect(server, token_file, ca) as client:
        answer = client.get("consumers", consumer, "keys")
    emit(answer, output, lambda answer: show(table(*cells("keys", answer.items()))))


def rotate(
    *,
    consumer: Consumer,
    key_id: KeyId,
    overlap: Annotated[
        str, typer.Option("--overlap", metavar="DURATION", help="How long the old key stays good.")
    ] = "24h",
    output: Format = Output.TEXT,
    server: Server = DEFAULT_SERVER,
    token_file: TokenFile = None,
    ca: Ca = None,
) -> None:
    """Make a new key for an old one, and print it, alone, on stdout; the old one ends after the overlap."""
    from control_plane.cli.session import connect  # noqa: PLC0415 - keeps --help quick

    with connect(server, token_file, ca) as client:
        answer = client.post("consumers", consumer, "keys", key_id, "rotate", body={"overlap": overlap})
        _show_once(answer, output)


def revoke(
    *,
    consumer: Consumer,
    key_id: KeyId,
    output: Format = Output.TEXT,
    server: Server = DEFAULT_SERVER,
    token_file: TokenFile = None,
    ca: Ca = None,
) -> None:
    """Revoke a key; within a second every sidecar refuses it."""
    from control_plane.cli.printing import emit, show  # noqa: PLC0415 - keeps --help quick
    from control_plane.cli.session import connect  # noqa: PLC0415

    with connect(server, token_file, ca) as client:
        answer = client.delete("consumers", consumer, "keys", key_id)
    emit(answer, output, lambda _: show(f"key {key_id} of Consumer/{consumer} revoked"))


def _show_once(answer: Answer, output: Output) -> None:
    from control_plane.cli.printing import emit, say, write  # noqa: PLC0415

    made = answer.fields()
    emit(answer, output, lambda _: write(str(made.get("key"))))
    if output is Output.TEXT:
        until = f", good until {made['expiresAt']}" if made.get("expiresAt") else ""
        say(f"key {made.get('id')} of Consumer/{made.get('consumer')} is shown this once{until}")
