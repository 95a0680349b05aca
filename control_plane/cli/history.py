"""`outrigger history` and `outrigger rollback`: the revisions of policy."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from control_plane.cli.completion import complete_kind, complete_name
from control_plane.cli.kinds import plural_of
from control_plane.cli.options import DEFAULT_SERVER, Ca, Format, Output, Server, TokenFile
from control_plane.resources.plurals import KIND_OF

PAGE = 200


def history(
    *,
    plural: Annotated[
        str | None,
        typer.Argument(metavar="[PLURAL]", autocompletion=complete_kind, help="Only those that changed one."),
    ] = None,
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", autocompletion=complete_name)] = None,
    diff: Annotated[
        int | None, typer.Option("--diff", min=1, metavar="N", help="Show what revision N changed.")
    ] = None,
    against: Annotated[
        int | None, typer.Option("--against", min=0, metavar="M", help="Compare N with M, not with N-1.")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=10_000, help="How many, newest first.")] = 20,
    output: Format = Output.TEXT,
    server: Server = DEFAULT_SERVER,
    token_file: TokenFile = None,
    ca: Ca = None,
) -> None:
    """List the revisions, newest first: who changed what, when; or show what one of them changed.

    With a kind, and perhaps a name, only the revisions that changed such a document.
    """
    from control_plane.cli.changes import unified  # noqa: PLC0415 - keeps --help quick
    from control_plane.cli.columns import cells  # noqa: PLC0415
    from control_plane.cli.printing import as_yaml, emit, say, show, table, write  # noqa: PLC0415
    from control_plane.cli.session import connect  # noqa: PLC0415

    if against is not None and diff is None:
        raise typer.BadParameter("needs --diff N", param_hint="--against")
    prefix = f"{KIND_OF[plural_of(plural)]}/" if plural is not None else ""
    with connect(server, token_file, ca) as client:
        if diff is not None:
            answer = client.get("revisions", str(diff), "diff", query={"against": against})
            changes = [one for one in answer.fields().get("changes") or () if _about(one, prefix, name)]
            emit(answer, output, lambda _: show(*unified(changes)))
            return
        if not prefix:
            answer = client.get("revisions", query={"limit": limit})
            emit(answer, output, lambda answer: show(table(*cells("revisions", answer.items()))))
            return
        found = _search(client, prefix, name, limit)
    if output is Output.TEXT:
        show(table(*cells("revisions", found))) if found else say("no revision changed it")
    elif output is Output.YAML:
        write(as_yaml({"items": found}))
    else:
        import json  # noqa: PLC0415

        write(json.dumps({"items": found}, ensure_ascii=False))


def rollback(
    *,
    revision: Annotated[int, typer.Argument(min=1, metavar="N", help="The revision to go back to.")],
    output: Format = Output.TEXT,
    server: Server = DEFAULT_SERVER,
    token_file: TokenFile = None,
    ca: Ca = None,
) -> None:
    """Make every document what it was at revision N; this is a new revision.

    Keys, secrets and tokens are not touched: a revoked key stays revoked.
    """
    from control_plane.cli.changes import headlines, summary  # noqa: PLC0415 - keeps --help quick
    from control_plane.cli.printing import emit, show  # noqa: PLC0415
    from control_plane.cli.session import connect  # noqa: PLC0415

    with connect(server, token_file, ca) as client:
        answer = client.post("revisions", str(revision), "rollback")
    changes = [one for one in answer.fields().get("changes") or () if isinstance(one, dict)]
    told = f"revision {answer.fields().get('revision')}, as revision {revision} was: {summary(changes)}"
    emit(answer, output, lambda _: show(*headlines(changes), told))


def _search(client: Any, prefix: str, name: str | None, limit: int) -> list[dict[str, Any]]:
    """Return the newest `limit` revisions that changed such a document, reading as far back as it takes."""
    found: list[dict[str, Any]] = []
    before: int | None = None
    while len(found) < limit:
        page = client.get("revisions", query={"limit": PAGE, "before": before}).items()
        found += [
            one for one in page if any(_about(change, prefix, name) for change in one.get("changes") or ())
        ]
        before = page[-1].get("revision") if len(page) == PAGE else None
        if before is None:
            break
    return found[:limit]


def _about(change: Any, prefix: str, name: str | None) -> bool:
    document = str(change.get("document")) if isinstance(change, dict) else ""
    return document == f"{prefix}{name}" if name is not None else document.startswith(prefix)
