"""The entry point `outrigger`: exit statuses, commands loaded when they are run, and no traceback ever.

Status 0 is success, 1 a failure told in a sentence on stderr (or, for `diff`, differences), 2 wrong usage.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from typer.core import TyperCommand, TyperGroup

from control_plane.cli.commands import COMMANDS, Entry
from control_plane.cli.cores import leave_no_core
from control_plane.cli.failures import CommandFailed
from control_plane.cli.signals import leave_on_signals
from control_plane.cli.streams import abandon, settle, unwritable
from ext_proc.quick_start import without

if TYPE_CHECKING:
    from typer._click.core import Command, Context

PACKAGE: Final = "control_plane.cli"


class _NamedCommand(TyperCommand):
    """Stands for a command in the list; becomes the real one when it is run."""

    def __init__(self, name: str, entry: Entry) -> None:
        super().__init__(name, help=entry.summary, rich_help_panel=entry.panel)
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
        run = getattr(import_module(f"{PACKAGE}.{module}"), function)
        app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
        app.command(self.name, help=paragraphs(run), epilog=_epilog(self._entry))(run)
        return typer.main.get_command(app)


class _Commands(TyperGroup):
    """Commands by name, each imported only when it is run, so that `--help` is quick."""

    entries: Mapping[str, Entry] = COMMANDS

    def list_commands(self, ctx: Context) -> list[str]:
        """Return the names in the order of the table."""
        return list(self.entries)

    def get_command(self, ctx: Context, cmd_name: str) -> Command | None:
        """Return the command, or None when there is none of that name."""
        entry = self.entries.get(cmd_name)
        if entry is None:
            return None
        return _NamedGroup(cmd_name, entry) if entry.commands else _NamedCommand(cmd_name, entry)


class _NamedGroup(_Commands):
    """The commands below another, such as `token create`."""

    def __init__(self, name: str, entry: Entry) -> None:
        super().__init__(
            name=name,
            help=entry.summary,
            epilog=_epilog(entry),
            no_args_is_help=True,
            rich_help_panel=entry.panel,
        )
        self.entries = entry.commands


def _epilog(entry: Entry) -> str | None:
    return f"Example: {entry.example}" if entry.example else None


def paragraphs(function: Callable[..., Any]) -> str:
    """Return a docstring with the lines of each paragraph joined: the terminal is as wide as it is."""
    parts = (inspect.getdoc(function) or "").split("\n\n")
    return "\n\n".join(" ".join(part.split()) for part in parts)


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version  # noqa: PLC0415 - keeps --help quick

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
    app = typer.Typer(cls=_Commands, no_args_is_help=True, pretty_exceptions_enable=False)
    app.callback(epilog="Example: outrigger up")(_root)
    return app


def told(error: Exception) -> str:
    """Return the sentence for an error that ends the command."""
    if isinstance(error, CommandFailed):
        return f"outrigger: {error}"
    if sentence := unwritable(error):
        return f"outrigger: {sentence}"
    reason = " ".join(str(error).split()) or "no reason given"
    return f"outrigger: unexpected {type(error).__name__}: {reason}; please report it"


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit with its status."""
    leave_no_core()
    settle()
    try:
        _run(arguments)
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:
        # Whoever read our output (`| head`) has seen enough.
        abandon()
        sys.exit(1)
    except Exception as error:
        if unwritable(error):
            abandon()
        print(told(error), file=sys.stderr)
        sys.exit(1)


def _run(arguments: Sequence[str] | None) -> None:
    try:
        # httpx has a command too, for which it would load pygments and half of rich at each of ours.
        with without("httpx._main"):
            build()(args=list(arguments) if arguments is not None else None, prog_name="outrigger")
    except SystemExit:
        # What cannot be written is told now; at the end of the process only Python could tell it.
        sys.stdout.flush()
        raise
