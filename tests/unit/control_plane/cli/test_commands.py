"""The table of commands."""

from importlib import import_module

import pytest

from control_plane.cli.commands import COMMANDS, Entry

LEAVES = {
    f"{name} {below}".strip(): entry
    for name, group in COMMANDS.items()
    for below, entry in (group.commands.items() or {"": group}.items())
}


@pytest.mark.parametrize("name", list(LEAVES))
def test_every_command_leads_to_a_function(name: str) -> None:
    """That is documented."""
    module, _, function = LEAVES[name].target.partition(":")
    assert getattr(import_module(f"control_plane.cli.{module}"), function).__doc__


@pytest.mark.parametrize("name", list(LEAVES))
def test_its_example_is_of_itself(name: str) -> None:
    """Except where the command's own help shows one."""
    assert f"outrigger {name}" in LEAVES[name].example or name == "provider"


def test_only_what_serves_is_ended_by_a_signal_with_success() -> None:
    """The others are interrupted."""
    assert [name for name, entry in LEAVES.items() if entry.serves] == [
        "up",
        "sidecar",
        "control-plane",
        "controller",
        "provider",
    ]


def test_a_group_keeps_its_commands_together() -> None:
    """Below it they stand in one panel."""
    group: Entry = COMMANDS["token"]
    assert {entry.panel for entry in group.commands.values()} == {"Commands"}
