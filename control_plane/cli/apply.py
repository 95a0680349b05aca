"""`outrigger apply` and `outrigger diff`: documents of files to the control plane, all or nothing."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any

import typer

from control_plane.cli.options import DEFAULT_SERVER, Ca, Files, Format, Output, Server, TokenFile

if TYPE_CHECKING:
    from pathlib import Path

    from control_plane.cli.client import Answer, Client

MAX_WARNINGS = 20
_UNITS_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


def seconds(text: str) -> float:
    """Return the seconds that `500ms`, `30s` or `2m` say.

    Raises:
        BadParameter: it is no duration above zero.
    """
    parts = re.findall(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h)", text)
    total = sum(float(number) * _UNITS_S[unit] for number, unit in parts)
    if "".join(number + unit for number, unit in parts) != text or total <= 0:
        raise typer.BadParameter("is no duration, such as 30s or 2m")
    return total


def apply(
    *,
    files: Files,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check and show what would change; change nothing.")
    ] = False,
    wait: Annotated[
        bool, typer.Option("--wait", help="End only when every connected sidecar has it in force.")
    ] = False,
    timeout_s: Annotated[
        Any, typer.Option("--timeout", metavar="DURATION", parser=seconds, help="How long to wait.")
    ] = "30s",
    output: Format = Output.TEXT,
    server: Server = DEFAULT_SERVER,
    token_file: TokenFile = None,
    ca: Ca = None,
) -> None:
    """Create or replace the documents of the files, all or nothing, as one revision.

    Documents that are not in the files stay as they are. With --wait the exit status is 1 when a sidecar
    refuses the revision or the time is over.
    """
    from control_plane.cli.changes import headlines, summary, unified  # noqa: PLC0415 - keeps --help quick
    from control_plane.cli.printing import emit, show  # noqa: PLC0415
    from control_plane.cli.session import connect  # noqa: PLC0415
    from control_plane.cli.waiting import wait_in_force  # noqa: PLC0415

    if wait and dry_run:
        raise typer.BadParameter("--dry-run changes nothing to wait for", param_hint="--wait")

    def tell(answer: Answer) -> None:
        changes = _changes(answer)
        if dry_run:
            show(*unified(changes), f"dry run, nothing is written: {summary(changes)}")
        else:
            show(*headlines(changes), f"revision {answer.fields().get('revision')}: {summary(changes)}")

    with connect(server, token_file, ca) as client:
        answer = send(client, files, dry_run=dry_run)
        emit(answer, output, tell)
        if wait:
            wait_in_force(client, int(answer.fields().get("revision") or 0), timeout_s)


def diff(
    *,
    files: Files,
    output: Format = Output.TEXT,
    server: Server = DEFAULT_SERVER,
    token_file: TokenFile = None,
    ca: Ca = None,
) -> None:
    """Show what applying the files would change, field by field. Changes nothing.

    The exit status is 0 when nothing would change, 1 when something would.
    """
    from control_plane.cli.changes import differs, unified  # noqa: PLC0415 - keeps --help quick
    from control_plane.cli.printing import emit, show  # noqa: PLC0415
    from control_plane.cli.session import connect  # noqa: PLC0415

    with connect(server, token_file, ca) as client:
        answer = send(client, files, dry_run=True)
    emit(answer, output, lambda answer: show(*unified(_changes(answer))))
    if differs(_changes(answer)):
        raise typer.Exit(1)


def send(client: Client, files: list[Path], *, dry_run: bool) -> Answer:
    """Send the documents of `files`; warnings of the answer go to stderr.

    Raises:
        CommandFailed: they cannot be read, or are refused; each field with its file and line.
    """
    from control_plane.cli.client import Refused  # noqa: PLC0415
    from control_plane.cli.files import placed, read_documents  # noqa: PLC0415
    from control_plane.cli.printing import say  # noqa: PLC0415

    raws = read_documents(files)
    try:
        answer = client.post(
            "apply", body=[raw.value for raw in raws], query={"dryRun": "true" if dry_run else None}
        )
    except Refused as refused:
        raise placed(refused, raws) from None
    warnings = [one for one in answer.fields().get("warnings") or () if isinstance(one, dict)]
    for warning in warnings[:MAX_WARNINGS]:
        parts = (warning.get(name) for name in ("document", "field", "message"))
        say("warning: " + ": ".join(str(part) for part in parts if part))
    if len(warnings) > MAX_WARNINGS:
        say(f"warning: {len(warnings) - MAX_WARNINGS} more of these; outrigger validate names them")
    return answer


def _changes(answer: Answer) -> list[dict[str, Any]]:
    found = answer.fields().get("changes")
    return [change for change in found if isinstance(change, dict)] if isinstance(found, list) else []
