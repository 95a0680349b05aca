"""`outrigger delete`: one document."""

from __future__ import annotations

from typing import Annotated

import typer

from control_plane.cli.completion import complete_kind, complete_name
from control_plane.cli.kinds import plural_of
from control_plane.cli.options import DEFAULT_SERVER, Ca, Format, Output, Server, TokenFile
from control_plane.resources.plurals import KIND_OF


def delete(
    *,
    plural: Annotated[
        str, typer.Argument(metavar="PLURAL", autocompletion=complete_kind, help="models, policies, …")
    ],
    name: Annotated[str, typer.Argument(metavar="NAME", autocompletion=complete_name)],
    output: Format = Output.TEXT,
    server: Server = DEFAULT_SERVER,
    token_file: TokenFile = None,
    ca: Ca = None,
) -> None:
    """Delete one document. What others name is not deleted: the refusal lists them.

    Deleting a Consumer revokes its keys.
    """
    from control_plane.cli.printing import emit, show  # noqa: PLC0415 - keeps --help quick
    from control_plane.cli.session import connect  # noqa: PLC0415
    from control_plane.cli.text import printable  # noqa: PLC0415

    kind = plural_of(plural)
    with connect(server, token_file, ca) as client:
        answer = client.delete(kind, name)
    emit(answer, output, lambda _: show(f"{KIND_OF[kind]}/{printable(name)} deleted"))
