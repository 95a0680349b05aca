"""Waiting until a revision is in force on every connected sidecar, or will not be."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from control_plane.cli.failures import CommandFailed
from control_plane.cli.text import counted, printable

if TYPE_CHECKING:
    from control_plane.cli.client import Client

POLL_S: Final = 0.15


@dataclass(frozen=True, slots=True)
class Standing:
    """How far a revision has come. `refusals` is one sentence for each sidecar that refused."""

    connected: int
    in_force: int
    refusals: tuple[str, ...] = ()
    halted: str | None = None

    @property
    def settled(self) -> bool:
        """Whether nothing more is to be waited for."""
        return self.halted is not None or self.in_force + len(self.refusals) >= self.connected

    def sentence(self) -> str:
        """Return the standing for a reader."""
        return f"in force on {self.in_force} of {counted(self.connected, 'connected sidecar')}"


def standing(sidecars: Sequence[Mapping[str, Any]], revision: Mapping[str, Any]) -> Standing:
    """Return how far `revision` (as the API answers it) has come on `sidecars` (likewise)."""
    connected = [one for one in sidecars if one.get("connected")]
    refusals = tuple(
        f"sidecar {printable(str(one.get('id')))} refused it: {printable(str(one['nack']))}"
        for one in connected
        if one.get("nack")
    )
    serving = [one for one in connected if one.get("inForce") and not one.get("nack")]
    halted = None
    if revision.get("state") == "halted":
        halted = printable(str(revision.get("reason") or "no reason given"))
    return Standing(len(connected), len(serving), refusals, halted)


def wait_in_force(client: Client, revision: int, timeout_s: float) -> None:
    """Wait until `revision` is in force on every connected sidecar; progress goes to stderr.

    Raises:
        CommandFailed: it is halted, a sidecar refused it, or the time is over.
    """
    from rich.console import Console  # noqa: PLC0415 - keeps --help quick

    deadline = time.monotonic() + timeout_s
    console = Console(stderr=True)
    with console.status(f"revision {revision}: waiting for sidecars") as status:
        # Twice in a row: the first look may come before the change has begun to spread.
        settled = 0
        while True:
            listed = client.get("revisions", query={"limit": 1, "before": revision + 1}).items()
            found = standing(client.get("sidecars").items(), listed[0] if listed else {})
            settled = settled + 1 if found.settled else 0
            if settled == 2 or found.halted is not None:
                break
            status.update(f"revision {revision}: {found.sentence()}")
            if time.monotonic() > deadline:
                raise CommandFailed(
                    f"revision {revision} is {found.sentence()} after {timeout_s:g} s; "
                    "see which with outrigger status"
                )
            time.sleep(POLL_S)
    if found.halted is not None:
        raise CommandFailed(
            f"revision {revision} is halted and the one before stays in force: {found.halted}"
        )
    if found.refusals:
        raise CommandFailed("\n".join([f"revision {revision} is {found.sentence()}", *found.refusals]))
    console.print(f"revision {revision} is {found.sentence()}", markup=False, highlight=False, soft_wrap=True)
