"""`outrigger explain`: the policy that a request gets, and which Policy set each field."""

from __future__ import annotations

from typing import Annotated

import typer

from control_plane.cli.completion import complete_model, complete_tier
from control_plane.cli.options import DEFAULT_SERVER, Ca, Format, Output, Server, TokenFile


def explain(
    *,
    model: Annotated[
        str | None, typer.Option("--model", metavar="NAME", autocompletion=complete_model, help="The Model.")
    ] = None,
    tier: Annotated[
        str | None, typer.Option("--tier", metavar="NAME", autocompletion=complete_tier, help="The Tier.")
    ] = None,
    workload: Annotated[
        str | None, typer.Option("--workload", metavar="NAME", help="The sidecar's workload.")
    ] = None,
    version: Annotated[
        str | None, typer.Option("--version", metavar="NAME", help="A version of the Model.")
    ] = None,
    output: Format = Output.TEXT,
    server: Server = DEFAULT_SERVER,
    token_file: TokenFile = None,
    ca: Ca = None,
) -> None:
    """Show the effective value of every policy field, and the Policy that set it (none: the default)."""
    from control_plane.cli.columns import cells  # noqa: PLC0415 - keeps --help quick
    from control_plane.cli.printing import emit, show, table  # noqa: PLC0415
    from control_plane.cli.session import connect  # noqa: PLC0415

    with connect(server, token_file, ca) as client:
        query = {"model": model, "tier": tier, "workload": workload, "version": version}
        answer = client.get("explain", query=query)
    fields = [one for one in answer.fields().get("fields") or () if isinstance(one, dict)]
    emit(answer, output, lambda _: show(table(*cells("fields", fields))))
