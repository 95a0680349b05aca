"""`outrigger status`: every sidecar, and how far the newest revision has come."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from control_plane.cli.options import DEFAULT_SERVER, Ca, Format, Output, Server, TokenFile


def status(
    *,
    output: Format = Output.TEXT,
    server: Server = DEFAULT_SERVER,
    token_file: TokenFile = None,
    ca: Ca = None,
) -> None:
    """Show every sidecar: the policy pushed to it and acknowledged by it, why it refused, its Envoy.

    The exit status is 0 whatever the sidecars do; `apply --wait` is for scripts.
    """
    from control_plane.cli.columns import cells  # noqa: PLC0415 - keeps --help quick
    from control_plane.cli.printing import emit, show, table  # noqa: PLC0415
    from control_plane.cli.session import connect  # noqa: PLC0415

    with connect(server, token_file, ca) as client:
        answer = client.get("sidecars")
        newest = client.get("revisions", query={"limit": 1}).items() if output is Output.TEXT else []
    sidecars = answer.items()
    lines: list[Any] = [headline(newest, sidecars)]
    if sidecars:
        lines += ["", table(*cells("sidecars", sidecars))]
    emit(answer, output, lambda _: show(*lines))


def headline(newest: Sequence[Mapping[str, Any]], sidecars: Sequence[Mapping[str, Any]]) -> str:
    """Return the first line: the newest revision, and on how many sidecars it is in force."""
    from control_plane.cli.waiting import standing  # noqa: PLC0415

    if not newest:
        return f"no policy yet; {len(sidecars)} sidecars"
    found = standing(sidecars, newest[0])
    name = f"revision {newest[0].get('revision')}"
    if found.halted is not None:
        return f"{name} is halted, the one before stays in force: {found.halted}"
    if not found.connected:
        return f"{name}; no sidecar is connected"
    return f"{name} is {found.sentence()}"
