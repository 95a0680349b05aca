"""What a shell completes: kinds from a table, names from the API when it answers quickly.

Nobody can be told while a word is completed: whatever fails completes nothing.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import typer

from control_plane.cli.failures import CommandFailed
from control_plane.cli.kinds import LISTS, plural_of
from control_plane.cli.options import DEFAULT_SERVER
from control_plane.resources.plurals import KIND_OF

QUICK_S: Final = 1.0
MAX_NAMES: Final = 500


def complete_kind(incomplete: str) -> list[str]:
    """Return the kinds of document that begin so."""
    return [plural for plural in KIND_OF if plural.startswith(incomplete.lower())]


def complete_list(incomplete: str) -> list[str]:
    """Return everything that `get` lists and that begins so."""
    return [word for word in (*KIND_OF, *LISTS) if word.startswith(incomplete.lower())]


def complete_name(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the names of the kind that was written before."""
    return _names(ctx, str(ctx.params.get("plural") or ""), incomplete)


def complete_consumer(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the names of Consumers."""
    return _names(ctx, "consumers", incomplete)


def complete_release(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the names of Releases."""
    return _names(ctx, "releases", incomplete)


def complete_model(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the names of Models."""
    return _names(ctx, "models", incomplete)


def complete_tier(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the names of Tiers."""
    return _names(ctx, "tiers", incomplete)


def _names(ctx: typer.Context, plural: str, incomplete: str) -> list[str]:
    from control_plane.cli.session import connect  # noqa: PLC0415 - keeps --help quick

    token_file, ca = ctx.params.get("token_file"), ctx.params.get("ca")
    try:
        client = connect(
            str(ctx.params.get("server") or DEFAULT_SERVER),
            Path(token_file) if token_file else None,
            Path(ca) if ca else None,
            timeout_s=QUICK_S,
        )
        with client:
            items = client.get(plural_of(plural)).items()
    except (CommandFailed, typer.BadParameter):
        return []
    names = (str(item.get("metadata", {}).get("name", "")) for item in items)
    return [name for name in names if name.startswith(incomplete)][:MAX_NAMES]
