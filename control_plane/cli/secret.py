"""`outrigger secret`: providers' keys that the control plane keeps, encrypted. No value is ever shown."""

from __future__ import annotations

import getpass
import sys
from collections.abc import Sequence
from typing import Annotated, Final

import typer

from control_plane.cli.failures import CommandFailed
from control_plane.cli.options import DEFAULT_SERVER, Ca, Format, Output, Server, TokenFile
from control_plane.cli.text import counted

MAX_BYTES: Final = 64 * 1024

Name = Annotated[str, typer.Argument(metavar="NAME", help="As credentials.secretRef.name names it.")]


def set_secret(
    *,
    name: Name,
    keys: Annotated[
        list[str], typer.Argument(metavar="KEY...", help="As credentials.secretRef.key names it.")
    ],
    output: Format = Output.TEXT,
    server: Server = DEFAULT_SERVER,
    token_file: TokenFile = None,
    ca: Ca = None,
) -> None:
    """Store a provider's key, in the place of all that the secret held.

    The value comes from stdin, or is asked for: an argument would show in ps. With several KEYs, one line
    of stdin for each.
    """
    from control_plane.cli.printing import emit, show  # noqa: PLC0415 - keeps --help quick
    from control_plane.cli.session import connect  # noqa: PLC0415

    if len(set(keys)) != len(keys):
        raise typer.BadParameter("names one twice", param_hint="KEY")
    with connect(server, token_file, ca) as client:
        stored = next((one for one in client.get("secrets").items() if one.get("name") == name), {})
        lost = [str(key) for key in stored.get("keys") or () if key not in keys]
        if lost:
            raise CommandFailed(
                f"secret {name} holds {', '.join(lost)} too, which would be lost; name every key, "
                f"or outrigger secret delete {name} first"
            )
        values = dict(zip(keys, read_values(name, keys), strict=True))
        answer = client.put("secrets", name, body={"values": values})
    emit(answer, output, lambda _: show(f"secret {name} stored: {', '.join(keys)}"))


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


def rotate(
    *,
    output: Format = Output.TEXT,
    server: Server = DEFAULT_SERVER,
    token_file: TokenFile = None,
    ca: Ca = None,
) -> None:
    """Seal every stored value with a new encryption key. The values stay what they are.

    Where the key comes from OUTRIGGER_SECRET_KEY, put a new one in front of it first, and start again.
    """
    from control_plane.cli.printing import emit, show  # noqa: PLC0415 - keeps --help quick
    from control_plane.cli.session import connect  # noqa: PLC0415

    with connect(server, token_file, ca) as client:
        answer = client.post("secrets", "rotate")
    emit(answer, output, lambda _: show("every stored value is sealed with the newest key"))


def read_values(name: str, keys: Sequence[str]) -> list[str]:
    """Return one value a key: asked for without echo on a terminal, else the lines of stdin.

    Raises:
        CommandFailed: one is empty, there are not as many as keys, or they are too large or no text.
    """
    if sys.stdin.isatty():
        values = [getpass.getpass(f"value of {name}/{key}: ") for key in keys]
    else:
        content = sys.stdin.buffer.read(MAX_BYTES + 1)
        if len(content) > MAX_BYTES:
            raise CommandFailed(f"stdin holds more than {MAX_BYTES >> 10} KiB; is it the right file?")
        try:
            values = content.decode().rstrip("\r\n").splitlines()
        except UnicodeDecodeError:
            raise CommandFailed("stdin is no UTF-8 text; is it the right file?") from None
    values = [value.strip() for value in values]
    if len(values) != len(keys) or not all(values):
        wanted, found = counted(len(keys), "line"), counted(sum(map(bool, values)), "line")
        raise CommandFailed(f"stdin must hold {wanted} with a value; it holds {found}")
    return values
