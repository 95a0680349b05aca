"""Signals to a serving command, in processes of their own: before, within and after its event loop."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from control_plane.cli.signals import signals_held

LEAVE = """
leave_on_signals()
try:
    say()
    signal.pause()
finally:
    print("unwound", flush=True)
"""
HAND_OVER = """
async def serve():
    stopping = asyncio.Event()
    hand_signals_to(asyncio.get_running_loop(), stopping.set)
    say()
    await stopping.wait()
    ignore_signals()
    os.kill(os.getpid(), signal.SIGTERM)
    print("unwound", flush=True)
asyncio.run(serve())
"""
HEAD = """
import asyncio, os, signal
from control_plane.cli.signals import hand_signals_to, ignore_signals, leave_on_signals
def say():
    print("waiting", flush=True)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("program", [LEAVE, HAND_OVER], ids=["before the loop", "within it, and after"])
def test_a_signal_ends_it_with_status_0(program: str, number: signal.Signals) -> None:
    """What is open is closed first; a second signal at the end changes nothing."""
    with subprocess.Popen(
        [sys.executable, "-c", HEAD + program], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "waiting\n"
        process.send_signal(number)
        rest, _ = process.communicate(timeout=20)
    assert (process.returncode, rest) == (0, "unwound\n")


def test_a_signal_that_is_held_back_acts_at_the_end_of_the_block() -> None:
    """What is made in the block is finished, and its removal promised, before the process leaves."""
    seen: list[str] = []
    before = signal.signal(signal.SIGHUP, lambda number, frame: seen.append("signal"))
    try:
        with signals_held():
            signal.raise_signal(signal.SIGHUP)
            seen.append("made")
        assert seen == ["made", "signal"]
    finally:
        signal.signal(signal.SIGHUP, before)
