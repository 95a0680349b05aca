"""Signals that end a command which serves: from its first moment to its last, always with status 0.

asyncio's own handlers are there only while its loop runs: before and after, Python's defaults would leave a
temporary folder behind, or end with another status. See https://docs.python.org/3/library/signal.html.
"""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Iterator
from types import FrameType
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import asyncio

STOPPING: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def leave_on_signals() -> None:
    """From now on a signal unwinds the stack and ends the process with status 0."""
    for number in STOPPING:
        signal.signal(number, _leave)


def hand_signals_to(loop: asyncio.AbstractEventLoop, act: Callable[[], None]) -> None:
    """From now on a signal calls `act` in `loop`. Call `ignore_signals` before the loop is closed."""

    def hand_over(number: int, frame: FrameType | None) -> None:
        loop.call_soon_threadsafe(act)

    for number in STOPPING:
        signal.signal(number, hand_over)


@contextlib.contextmanager
def signals_held() -> Iterator[None]:
    """Keep signals back while the block runs; one that came acts as the block ends."""
    signal.pthread_sigmask(signal.SIG_BLOCK, STOPPING)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPPING)


def ignore_signals() -> None:
    """From now on signals are too late to matter.

    An ignored signal stays ignored while the interpreter is taken down; Python's handlers do not.
    """
    for number in STOPPING:
        signal.signal(number, signal.SIG_IGN)


def _leave(number: int, frame: FrameType | None) -> None:
    ignore_signals()
    raise SystemExit(0)
