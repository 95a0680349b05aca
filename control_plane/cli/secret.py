"""`outrigger secret`: providers' keys that the control plane keeps, encrypted. No value is ever shown."""

from __future__ import annotations

import getpass
import sys
from typing import Annotated, Final

import typer

from control_plane.cli.failures import CommandFailed
from control_plane.cli.options import DEFAULT_SERVER, Ca, Format, Output, Server, TokenFile

MAX_BYTES: Final = 64 * 1024

Name = Annotated[str, typer.Argument(metavar="NAME", help="As credentials.secretRef.name names it.")]


def set_secret(
    *,
    name: Name,
    key: Annotated[str, typer.Argument(metavar="KEY", help="As credentials.secretRef.key names it.")],
    output: Format = Output.TEXT,
    server: Server = DEFAULT_SERVER,
    token_file: TokenFile = None,
    ca: Ca = None,
) -> None:
    """Store a provider's key. The value comes from stdin, or is asked for: an argument would show in ps."""
    from control_plane.cli.printing import emit, show  # noqa: PLC0415 - keeps --help quick
    from control_plane.cli.session import connect  # noqa: PLC0415

    value = read_value(f"value of {name}/{key}: ")
    with connect(server, token_file, ca) as client:
        answer = client.put("secrets", name, body={"values": {key: value}})
    emit(answer, output, lambda _: show(f"secret {name}/{key} stored"))


def list_secrets(
    *,
    output: Format = Output.TEXT,
    server: Server = DEFAULT_SERVER,
    token_file: TokenFile = None,
    ca: Ca = None,
) -> None:
    """List names and keys, never values."""
    from control_plane.cli.columns import cells  # noqa: PLC0415 - keeps --help quick
    from control_plane.cli.printing import emit, show, table  # noqa: PLC0415
    from control_plane.cli.session import connect  # noqa: PLC0415

    with connect(server, token_file, ca) as client:
        answer = client.get("secrets")
    emit(answer, output, lambda answer: show(table(*cells("secrets", answer.items()))))


def delete(
    *,
    name: Name,
    output: Format = Output.TEXT,
    server: Server = DEFAULT_SERVER,
    token_file: TokenFile = None,
    ca: Ca = None,
) -> None:
    """Delete a secret with all its keys. One that a Backend names is not deleted."""
    from control_plane.cli.printing import emit, show  # noqa: PLC0415 - keeps --help quick
    from control_plane.cli.session import connect  # noqa: PLC0415

    with connect(server, token_file, ca) as client:
        answer = client.delete("secrets", name)
    emit(answer, output, lambda _: show(f"secret {name} deleted"))


def read_value(prompt: str) -> str:
    """Return the value from stdin without its end of line; on a terminal it is asked for, without echo.

    Raises:
        CommandFailed: it is empty, too large or no text.
    """
    if sys.stdin.isatty():
        value = getpass.getpass(prompt)
    else:
        content = sys.stdin.buffer.read(MAX_BYTES + 1)
        if len(content) > MAX_BYTES:
            raise CommandFailed(f"the value is larger than {MAX_BYTES >> 10} KiB; is it the right file?")
        try:
            value = content.decode()
        except UnicodeDecodeError:
            raise CommandFailed("the value is no UTF-8 text; is it the right file?") from None
    value = value.rstrip("\r\n")
    if not value:
        raise CommandFailed("the value is empty; pipe it in, or type it when asked")
    return value
