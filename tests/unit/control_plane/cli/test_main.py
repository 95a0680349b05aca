"""The command line as a whole."""

import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from control_plane.cli import main as cli
from control_plane.cli.commands import COMMANDS, Entry
from control_plane.cli.failures import CommandFailed

FULL = "the output cannot be written (no space left on device); make room, or write elsewhere"


def run(*arguments: str) -> int:
    """Run the command line and return its exit status."""
    with pytest.raises(SystemExit) as ended:
        cli.main(arguments)
    return int(ended.value.code or 0)


def test_help_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    """Also those whose module is not loaded."""
    assert run("--help") == 0
    out = capsys.readouterr().out
    assert all(name in out for name in COMMANDS)


def every_command(entries: Mapping[str, Entry] = COMMANDS, before: str = "") -> Iterator[str]:
    """Yield `up`, `token`, `token create`, …"""
    for name, entry in entries.items():
        yield before + name
        yield from every_command(entry.commands, f"{before}{name} ")


@pytest.mark.parametrize("name", list(every_command()))
def test_every_command_has_help_with_an_example(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A user learns by copying."""
    assert run(*name.split(), "--help") == 0
    out = capsys.readouterr().out.lower()
    assert "example" in out
    assert f"outrigger {name}" in out


@pytest.mark.parametrize("name", [name for name, entry in COMMANDS.items() if entry.commands])
def test_a_group_without_a_command_shows_its_commands(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """That is wrong usage."""
    assert run(name) == 2
    captured = capsys.readouterr()
    assert all(below in captured.out + captured.err for below in COMMANDS[name].commands)


def test_paragraphs_fit_any_terminal() -> None:
    """Lines of one paragraph are one line; paragraphs stay apart."""

    def command() -> None:
        """Do one thing
        after another.

        Then rest.
        """

    assert cli.paragraphs(command) == "Do one thing after another.\n\nThen rest."


def test_a_reader_that_leaves_is_no_news() -> None:
    """`outrigger … | head -1` ends without a word."""
    script = "from control_plane.cli.main import main\nmain(['validate', '-f', '-', '-o', 'json'])"
    documents = "---\n".join(f"kind: Tier\nmetadata: {{name: t{n}}}\nspec: {{x: 1}}\n" for n in range(3000))
    with subprocess.Popen(
        [sys.executable, "-c", script],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin and process.stdout and process.stderr
        process.stdout.close()
        process.stdin.write(documents)
        process.stdin.close()
        err = process.stderr.read()
    assert (process.returncode, err) == (1, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("arguments", [["--help"], ["validate", "-f", "-"], ["inject", "-f", "-"]])
def test_a_full_disk_is_one_sentence(arguments: list[str]) -> None:
    """Told once, however much was to be written and by whom; Python says nothing more at its end."""
    command = [sys.executable, "-c", "from control_plane.cli.main import main\nmain()", *arguments]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            command,
            input="kind: Tier\nmetadata: {name: t}\nspec: {limits: {requestsPerMinute: 1}}\n",
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert (done.returncode, done.stderr) == (1, f"outrigger: {FULL}\n")


def test_the_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    """Name and number, on stdout."""
    assert run("--version") == 0
    assert capsys.readouterr().out.startswith("outrigger 0.")


@pytest.mark.parametrize(
    "arguments", [(), ("nonsense",), ("--nonsense",), ("validate",), ("up", "--proxy-port", "70000")]
)
def test_wrong_usage_ends_with_two(arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    """No command, an unknown one, an unknown option, a missing one, a value out of range."""
    assert run(*arguments) == 2
    captured = capsys.readouterr()
    assert "Traceback" not in captured.out + captured.err


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (CommandFailed("port 1 is in use; choose another"), "outrigger: port 1 is in use; choose another"),
        (OSError(28, "No space left on device"), f"outrigger: {FULL}"),
        (FileNotFoundError("a"), "outrigger: unexpected FileNotFoundError: a; please report it"),
        (RuntimeError("a\nb"), "outrigger: unexpected RuntimeError: a b; please report it"),
    ],
)
def test_a_failure_is_a_sentence(error: Exception, sentence: str) -> None:
    """Expected or not, no traceback."""
    assert cli.told(error) == sentence


def test_a_failure_goes_to_stderr_and_ends_with_one(capsys: pytest.CaptureFixture[str]) -> None:
    """Stdout stays empty for whoever reads it."""
    assert run("up", "-f", "/nowhere/policy.yaml") == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("outrigger: /nowhere/policy.yaml: cannot be read")
    assert captured.err.count("\n") == 1


def test_help_loads_no_server() -> None:
    """`--help` stays quick: gRPC, FastAPI and pydantic are loaded by the commands that need them."""
    script = (
        "import sys\nfrom control_plane.cli.main import main\n"
        "try: main(['--help'])\nexcept SystemExit: pass\n"
        "print(sorted({'grpc', 'fastapi', 'pydantic', 'yaml', 'httpx', 'uvicorn'} & set(sys.modules)))"
    )
    out = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert out.splitlines()[-1] == "[]"
