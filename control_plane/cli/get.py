"""`outrigger get`: documents and what else the API lists."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from control_plane.cli.completion import complete_list, complete_name
from control_plane.cli.kinds import listed
from control_plane.cli.options import DEFAULT_SERVER, Ca, Format, Output, Server, TokenFile
from control_plane.resources.plurals import KIND_OF


def get(
    *,
    plural: Annotated[
        str,
        typer.Argument(
            metavar="PLURAL",
            autocompletion=complete_list,
            help="Of documents (models, policies, …), or audit, revisions, secrets, sidecars, tokens.",
        ),
    ],
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", autocompletion=complete_name, help="Only this one.")
    ] = None,
    output: Format = Output.TEXT,
    server: Server = DEFAULT_SERVER,
    token_file: TokenFile = None,
    ca: Ca = None,
) -> None:
    """List documents of one kind, or show one. With -o yaml they can be edited and applied again."""
    from control_plane.cli.printing import as_yaml, emit, say, show, table, write  # noqa: PLC0415
    from control_plane.cli.session import connect  # noqa: PLC0415 - keeps --help quick

    wanted = listed(plural)
    if name is not None and wanted not in (*KIND_OF, "revisions"):
        raise typer.BadParameter(f"{wanted} are listed only; leave the name out", param_hint="NAME")
    with connect(server, token_file, ca) as client:
        answer = client.get(wanted, *([name] if name is not None else []))
    items = answer.items() if name is None else [answer.fields()]
    if output is Output.YAML and wanted in KIND_OF:
        write("---\n".join(map(as_yaml, items)))
        return
    if output is Output.TEXT and not items:
        say(f"no {wanted}")
        return
    emit(answer, output, lambda _: show(_table(table, wanted, items)))


def _table(make: Any, wanted: str, items: list[dict[str, Any]]) -> Any:
    from control_plane.cli.columns import cells  # noqa: PLC0415

    return make(*cells(wanted, items))
