"""The entry point `outrigger`: the list of commands, exit statuses, and no traceback ever.

Status 0 is success, 1 a failure told in a sentence on stderr, 2 wrong usage.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from typer.core import TyperCommand, TyperGroup

from control_plane.cli.failures import CommandFailed
from control_plane.cli.signals import leave_on_signals

if TYPE_CHECKING:
    from typer._click.core import Command, Context


@dataclass(frozen=True, slots=True)
class Entry:
    """One command: where its function is, its line in the list, and an example ("" when it shows its own).

    One that `serves` runs until a signal ends it, which is its success.
    """

    target: str
    summary: str
    example: str = ""
    serves: bool = False


COMMANDS: Final[dict[str, Entry]] = {
    "up": Entry(
        "control_plane.cli.up:up",
        "Run the whole mesh on this machine; without a file, a demo.",
        "outrigger up -f policy.yaml --proxy-port 10000",
        serves=True,
    ),
    "sidecar": Entry(
        "control_plane.cli.sidecar:sidecar",
        "Run one sidecar: agent, processors and Envoy.",
        "outrigger sidecar --control-plane 10.0.0.5:9900 --workload checkout",
        serves=True,
    ),
    "control-plane": Entry(
        "control_plane.cli.control_plane:control_plane",
        "Run the control plane: the API and the push stream.",
        "outrigger control-plane -f policy.yaml --push-address 0.0.0.0:9900",
        serves=True,
    ),
    "provider": Entry(
        "control_plane.cli.provider:provider",
        "Run the simulated provider, OpenAI-compatible and free.",
        serves=True,
    ),
    "validate": Entry(
        "control_plane.cli.validate:validate",
        "Check documents without any server.",
        "outrigger validate -f policy.yaml -o json",
    ),
}


class _NamedCommand(TyperCommand):
    """Stands for a command in the list; becomes the real one when it is run."""

    def __init__(self, name: str, entry: Entry) -> None:
        super().__init__(name, help=entry.summary)
        self._entry = entry

    def make_context(
        self, info_name: str | None, args: list[str], parent: Context | None = None, **extra: Any
    ) -> Context:
        """Import the command and go on with it."""
        if self._entry.serves:
            leave_on_signals()
        return self.load().make_context(info_name, args, parent=parent, **extra)

    def load(self) -> Command:
        """Return the real command."""
        module, _, function = self._entry.target.partition(":")
        app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
        epilog = f"Example: {self._entry.example}" if self._entry.example else None
        app.command(self.name, epilog=epilog)(getattr(import_module(module), function))
        return typer.main.get_command(app)


class _Commands(TyperGroup):
    """The commands by name, each imported only when it is run, so that `--help` is quick."""

    def list_commands(self, ctx: Context) -> list[str]:
        """Return the names in the order of the table."""
        return list(COMMANDS)

    def get_command(self, ctx: Context, cmd_name: str) -> Command | None:
        """Return the command, or None when there is none of that name."""
        entry = COMMANDS.get(cmd_name)
        return _NamedCommand(cmd_name, entry) if entry else None


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"outrigger {version('outrigger-llm')}")
        raise typer.Exit


def _root(
    show_version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """An LLM service mesh: an Envoy sidecar and a Python processor beside every application."""


def build() -> typer.Typer:
    """Return the application."""
    app = typer.Typer(
        cls=_Commands, no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False
    )
    app.callback(epilog="Example: outrigger up")(_root)
    return app


def told(error: Exception) -> str:
    """Return the sentence for an error that ends the command."""
    if isinstance(error, CommandFailed):
        return f"outrigger: {error}"
    reason = " ".join(str(error).split()) or "no reason given"
    return f"outrigger: unexpected {type(error).__name__}: {reason}; please report it"


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit with its status."""
    try:
        build()(args=list(arguments) if arguments is not None else None, prog_name="outrigger")
    except KeyboardInterrupt:
        sys.exit(130)
    except Exception as error:
        print(told(error), file=sys.stderr)
        sys.exit(1)
