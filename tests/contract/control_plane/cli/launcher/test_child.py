"""Keeping real processes up."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest

from control_plane.cli.launcher.child import Child, ending
from control_plane.cli.launcher.plan import ChildSpec, Role

SLEEP = "import time; time.sleep(60)"
STUBBORN = (
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); time.sleep(60)"
)


def spec(script: str, role: Role = Role.PROCESSOR) -> ChildSpec:
    """Return a child that runs a Python script."""
    return ChildSpec("processor 0", role, (sys.executable, "-c", script), os.environ)


def alive(pid: int) -> bool:
    """Say whether `pid` runs (a zombie does not)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


async def until(condition: Callable[[], object], within_s: float = 10) -> None:
    """Wait until `condition` holds."""
    async with asyncio.timeout(within_s):
        while not condition():  # noqa: ASYNC110 - other processes have no events of ours
            await asyncio.sleep(0.01)


Kept = Callable[[ChildSpec], Awaitable[tuple[Child, list[str]]]]


@pytest.fixture
async def kept():  # type: ignore[no-untyped-def]
    """Return what keeps a child up for the test, and its log."""
    children: list[Child] = []

    async def keep(what: ChildSpec) -> tuple[Child, list[str]]:
        lines: list[str] = []
        child = Child(what, lines.append)
        children.append(child)
        child.start()
        return child, lines

    yield keep
    for child in children:
        await child.stop(0.1)


async def test_a_killed_process_is_started_again_at_once(kept: Kept) -> None:
    """The log says how the first one ended."""
    child, lines = await kept(spec(SLEEP))
    await until(lambda: child.pid)
    first = child.pid
    assert first
    began = time.monotonic()
    os.kill(first, signal.SIGKILL)
    await until(lambda: child.pid not in (first, None))
    assert time.monotonic() - began < 3
    assert lines == ["processor 0 was ended by SIGKILL; starting it again"]


async def test_a_process_that_cannot_run_waits_longer_each_time(kept: Kept) -> None:
    """Its last words are kept, for the sentence that gives up on it."""
    child, lines = await kept(spec("import sys; sys.exit('no such thing')"))
    await until(lambda: child.backoff.deaths >= 2)
    assert child.last_line == "no such thing"
    assert "processor 0 ended with status 1; starting it again" in lines


async def test_a_program_that_is_not_there_is_a_death_too(kept: Kept) -> None:
    """Nothing is raised into the launcher."""
    child, lines = await kept(ChildSpec("Envoy", Role.ENVOY, ("/nowhere/envoy",), {}))
    await until(lambda: child.backoff.deaths)
    assert lines[0] == "Envoy cannot be started: No such file or directory"


async def test_stopping_ends_the_process_and_starts_no_other(kept: Kept) -> None:
    """SIGTERM is enough for a process that listens to it."""
    child, lines = await kept(spec(SLEEP))
    await until(lambda: child.pid)
    pid = child.pid
    await child.stop(5)
    assert pid
    assert not alive(pid)
    assert (child.pid, lines) == (None, [])


async def test_a_stubborn_process_is_killed_with_what_it_started(kept: Kept) -> None:
    """After the grace, SIGKILL reaches the whole session."""
    script = f"import subprocess, sys; p = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)']); print(p.pid, file=sys.stderr, flush=True)\n{STUBBORN}"  # noqa: E501
    child, lines = await kept(spec(script))
    await until(lambda: lines)
    grandchild = int(lines[0].removeprefix("processor 0: "))
    await asyncio.sleep(0)
    began = time.monotonic()
    await child.stop(0.3)
    assert time.monotonic() - began < 3
    await until(lambda: not alive(grandchild))


async def test_output_is_passed_on_line_by_line_and_harmless(kept: Kept) -> None:
    """JSON lines as they are, others with the name; control characters escaped; stdout is not read."""
    script = r"""
import sys
print('not this')
sys.stderr.write('{"event": "a"}\nplain \x1b[2J\0 text\n' + 'x' * 200_000 + '\nlast')
"""
    _, lines = await kept(spec(script))
    await until(lambda: "processor 0: last" in lines)
    del lines[lines.index("processor 0: last") :]
    assert lines[:2] == ['{"event": "a"}', r"processor 0: plain \x1b[2J\x00 text"]
    assert sum(line.count("x") for line in lines[2:]) == 200_000
    assert not any("not this" in line for line in lines)


def test_a_child_dies_with_the_launcher() -> None:
    """kill -9 of the launcher leaves nothing behind."""
    script = f"""
import asyncio, sys
from control_plane.cli.launcher.child import Child
from control_plane.cli.launcher.plan import ChildSpec, Role
async def main():
    child = Child(ChildSpec("x", Role.AGENT, (sys.executable, "-c", {STUBBORN!r}), {{}}), print)
    child.start()
    while child.pid is None:
        await asyncio.sleep(0.01)
    print(child.pid, flush=True)
    await asyncio.sleep(60)
asyncio.run(main())
"""
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as launcher:
        assert launcher.stdout is not None
        pid = int(launcher.stdout.readline())
        assert alive(pid)
        assert os.getsid(pid) == pid, "a Ctrl-C in the terminal must reach the launcher only"
        launcher.kill()
    deadline = time.monotonic() + 5
    while alive(pid) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not alive(pid)


@pytest.mark.parametrize(
    ("status", "words"),
    [(0, "ended with status 0"), (-9, "was ended by SIGKILL"), (-99, "ended with status -99")],
)
def test_an_ending_is_told_in_words(status: int, words: str) -> None:
    """Signals by name."""
    assert ending(status) == words


async def test_what_a_process_tells_is_heard() -> None:
    """Stdout of one that speaks goes to the launcher line by line, and to no log."""
    heard: list[str] = []
    lines: list[str] = []
    speaking = replace(spec("print('one\\x1b', flush=True); print('two', flush=True)"), speaks=True)
    child = Child(speaking, lines.append, heard.append)
    child.start()
    await until(lambda: child.backoff.deaths)
    await child.stop(0.1)
    assert heard[:2] == [r"one\x1b", "two"]
    assert not any("one" in line for line in lines)


async def test_a_settled_process_is_started_by_its_other_command_line() -> None:
    """What is done once, at the first start, is not done again."""
    lines: list[str] = []
    first = spec("import sys, time; sys.stderr.write('first\\n'); sys.stderr.flush(); time.sleep(60)")
    later = replace(first, again=(sys.executable, "-c", "import sys; sys.stderr.write('again\\n')"))
    child = Child(later, lines.append)
    child.start()
    await until(lambda: child.last_line == "first")
    child.signal(signal.SIGKILL)
    await until(lambda: lines.count("processor 0: first") == 2)
    child.settle()
    child.signal(signal.SIGKILL)
    await until(lambda: "processor 0: again" in lines)
    await child.stop(0.1)
