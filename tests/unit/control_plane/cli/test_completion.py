"""What a shell completes."""

import os
from collections.abc import Iterator

import pytest

from tests.harness.preloaded import Preloaded, preloaded
from tests.unit.control_plane.cli.stub import Stub


@pytest.fixture(scope="module")
def loaded() -> Iterator[Preloaded]:
    """The command with all that it needs."""
    with preloaded("control_plane.cli.main", "control_plane.cli.completion") as running:
        yield running


def completed(loaded: Preloaded, line: str, **environment: str) -> list[str]:
    """Return what bash would offer for the last word of `line`."""
    words = line.split(" ")
    asked = {
        "_OUTRIGGER_COMPLETE": "complete_bash",
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(words) - 1),
    }
    out = loaded.run([], {**os.environ, **asked, **environment})
    assert (out.returncode, out.stderr) == (0, "")
    return out.stdout.split()


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("outrigger s", ["sidecar", "status", "secret"]),
        ("outrigger token ", ["create", "list", "revoke"]),
        ("outrigger get m", ["models"]),
        ("outrigger get s", ["secrets", "sidecars"]),
        ("outrigger delete s", []),
        ("outrigger token create --role ", ["viewer", "editor", "admin", "sidecar"]),
        ("outrigger apply --dry", ["--dry-run"]),
        ("outrigger get models -o ", ["text", "json", "yaml"]),
    ],
)
def test_words_that_are_known_are_completed(loaded: Preloaded, line: str, words: list[str]) -> None:
    """Commands, kinds, choices and options, without any server."""
    assert completed(loaded, line) == words


def test_names_come_from_the_server(loaded: Preloaded, stub: Stub) -> None:
    """Of the kind that was written before."""
    stub.answer("GET /api/v1/models", {"items": [{"metadata": {"name": name}} for name in ("gpt-4o", "o1")]})
    stub.answer("GET /api/v1/consumers", {"items": [{"metadata": {"name": "team-a"}}]})
    assert completed(loaded, "outrigger get models ") == ["gpt-4o", "o1"]
    assert completed(loaded, "outrigger delete Model g") == ["gpt-4o"]
    assert completed(loaded, "outrigger explain --model o") == ["o1"]
    assert completed(loaded, "outrigger key create ") == ["team-a"]


@pytest.mark.parametrize("server", ["http://127.0.0.1:1", "nonsense"])
def test_without_a_server_no_name_is_completed(loaded: Preloaded, server: str) -> None:
    """And no word is said about it."""
    assert completed(loaded, "outrigger get models ", OUTRIGGER_SERVER=server) == []


@pytest.mark.parametrize(
    ("shell", "sign"),
    [("bash", "complete -o default -F"), ("zsh", "#compdef outrigger"), ("fish", "complete --command")],
)
def test_scripts_for_the_shells(loaded: Preloaded, shell: str, sign: str) -> None:
    """To be copied or installed."""
    named = {"_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}  # else it is the shell that runs us
    out = loaded.run(["--show-completion", shell], named)
    assert out.returncode == 0
    assert sign in out.stdout
