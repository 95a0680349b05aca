"""`outrigger cache`: what cached answers save, which there are, and purging them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from control_plane.cli.apply import seconds
from control_plane.cli.completion import complete_model
from control_plane.cli.failures import CommandFailed
from control_plane.cli.options import DEFAULT_SERVER, Ca, Format, Output, Server, TokenFile

if TYPE_CHECKING:
    from control_plane.cli.client import Answer, Client

KEY_DIGITS: Final = 64
PAGE: Final = 1000

Model = Annotated[
    str | None,
    typer.Option("--model", metavar="NAME", autocompletion=complete_model, help="Of this Model or alias."),
]
Tenant = Annotated[
    str | None,
    typer.Option("--tenant", metavar="NAME", help="Of this tenant: a name, or as export shows it."),
]
Prefix = Annotated[str | None, typer.Option("--key-prefix", metavar="HEX", help="Whose keys begin so.")]


def stats(
    *,
    output: Format = Output.TEXT,
    server: Server = DEFAULT_SERVER,
    token_file: TokenFile = None,
    ca: Ca = None,
) -> None:
    """Show hit ratio by tier, what hits saved, how old they were, and each sidecar's part of it.

    Counted since each sidecar's agent started; entries and bytes are as of now.
    """
    from control_plane.cli.cache_text import statistics_lines  # noqa: PLC0415 - keeps --help quick
    from control_plane.cli.printing import emit, show  # noqa: PLC0415
    from control_plane.cli.session import connect  # noqa: PLC0415

    with connect(server, token_file, ca) as client:
        answer = client.get("cache")
    emit(answer, output, lambda answer: show(*statistics_lines(answer.fields())))


def get(
    *,
    key: Annotated[
        str,
        typer.Argument(metavar="KEY", help="As export shows it; its beginning will do if only one has it."),
    ],
    output: Format = Output.TEXT,
    server: Server = DEFAULT_SERVER,
    token_file: TokenFile = None,
    ca: Ca = None,
) -> None:
    """Show one cached answer with what was answered. For admins; each look is in the audit."""
    from control_plane.cli.cache_text import entry_lines  # noqa: PLC0415 - keeps --help quick
    from control_plane.cli.printing import emit, show  # noqa: PLC0415
    from control_plane.cli.session import connect  # noqa: PLC0415

    wanted = _hex(key, "KEY")
    with connect(server, token_file, ca) as client:
        if len(wanted) < KEY_DIGITS:
            wanted = _only_key(client, wanted)
        answer = client.get("cache", "entries", wanted)
    emit(answer, output, lambda answer: show(*entry_lines(answer.fields())))


def purge(
    *,
    model: Model = None,
    version: Annotated[
        str | None, typer.Option("--version", metavar="NAME", help="Of this version (with --model).")
    ] = None,
    tenant: Tenant = None,
    key_prefix: Prefix = None,
    key: Annotated[str | None, typer.Option("--key", metavar="HEX", help="This answer.")] = None,
    every: Annotated[bool, typer.Option("--all", help="Every answer of every tenant.")] = False,
    wait: Annotated[
        bool, typer.Option("--wait", help="End only when it is in force on every connected sidecar.")
    ] = False,
    timeout_s: Annotated[
        Any, typer.Option("--timeout", metavar="DURATION", parser=seconds, help="How long to wait.")
    ] = "30s",
    output: Format = Output.TEXT,
    server: Server = DEFAULT_SERVER,
    token_file: TokenFile = None,
    ca: Ca = None,
) -> None:
    """Make cached answers void: those that were asked for until now and meet every option given.

    In every tier, on every sidecar within a second, answers that are on their way included. No rollback
    brings them back.
    """
    from control_plane.cli.cache_text import purged_line  # noqa: PLC0415 - keeps --help quick
    from control_plane.cli.printing import emit, show  # noqa: PLC0415
    from control_plane.cli.session import connect  # noqa: PLC0415
    from control_plane.cli.waiting import wait_in_force  # noqa: PLC0415

    order = {
        "model": model,
        "version": version,
        "tenant": tenant,
        "keyPrefix": _hex(key_prefix, "--key-prefix") if key_prefix is not None else None,
        "key": _hex(key, "--key") if key is not None else None,
    }
    conditions = {name: value for name, value in order.items() if value is not None}
    if every and conditions:
        raise typer.BadParameter("purges everything; leave the other options out", param_hint="--all")
    if not every and not conditions:
        raise typer.BadParameter("say which answers: --model, --tenant, --key-prefix, --key, or --all")
    if version is not None and model is None:
        raise typer.BadParameter("needs --model", param_hint="--version")
    if key is not None and key_prefix is not None:
        raise typer.BadParameter("leave --key-prefix out", param_hint="--key")
    with connect(server, token_file, ca) as client:
        answer = client.post("cache", "purge", body={"all": True} if every else conditions)
        emit(answer, output, lambda answer: show(purged_line(answer.fields())))
        if wait:
            wait_in_force(client, int(answer.fields().get("revision") or 0), timeout_s)


def export(
    *,
    model: Model = None,
    tenant: Tenant = None,
    key_prefix: Prefix = None,
    output: Format = Output.TEXT,
    server: Server = DEFAULT_SERVER,
    token_file: TokenFile = None,
    ca: Ca = None,
) -> None:
    """List every cached answer that sidecars have in memory, without what was answered.

    With -o json one object a line and whole keys, for jq and the like. Sidecars that do not answer are named
    on stderr.
    """
    from control_plane.cli.columns import cells  # noqa: PLC0415 - keeps --help quick
    from control_plane.cli.printing import as_yaml, say, show, table, write  # noqa: PLC0415
    from control_plane.cli.session import connect  # noqa: PLC0415

    query = {
        "model": model,
        "tenant": tenant,
        "keyPrefix": _hex(key_prefix, "--key-prefix") if key_prefix is not None else None,
    }
    found: list[dict[str, Any]] = []
    silent: set[str] = set()
    with connect(server, token_file, ca) as client:
        for page in _pages(client, query):
            silent.update(str(name) for name in page.fields().get("unanswered") or ())
            if output is Output.JSON:
                write("\n".join(json.dumps(item, ensure_ascii=False) for item in page.items()))
            else:
                found += page.items()
    if output is Output.YAML:
        write(as_yaml(found))
    elif output is Output.TEXT and found:
        show(table(*cells("answers", found)))
    elif output is Output.TEXT:
        say("no cached answers")
    if silent:
        say(f"warning: not all of it: {', '.join(sorted(silent))} did not answer")


def _pages(client: Client, query: Mapping[str, str | None]) -> Iterator[Answer]:
    after: str | None = None
    while True:
        page = client.get("cache", "entries", query={**query, "limit": PAGE, "after": after})
        yield page
        before, after = after, page.fields().get("next")
        if not isinstance(after, str) or after == before:
            return


def _only_key(client: Client, prefix: str) -> str:
    answer = client.get("cache", "entries", query={"keyPrefix": prefix, "limit": 2})
    found = [str(item.get("key")) for item in answer.items()]
    if not found:
        raise CommandFailed(f"no cached answer's key begins with {prefix}; outrigger cache export lists them")
    if len(found) > 1:
        raise CommandFailed(f"several keys begin with {prefix}: {found[0]}, {found[1]}, …; write more of it")
    return found[0]


def _hex(text: str, option: str) -> str:
    digits = text.strip().lower()
    if not 1 <= len(digits) <= KEY_DIGITS or set(digits) - set("0123456789abcdef"):
        raise typer.BadParameter(f"is no key: 1 to {KEY_DIGITS} digits 0-9, a-f", param_hint=option)
    if option == "--key" and len(digits) < KEY_DIGITS:
        raise typer.BadParameter("is not whole: 64 digits, or use --key-prefix", param_hint=option)
    return digits
