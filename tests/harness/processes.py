"""Processes as /proc shows them, and free ports (Linux)."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import random
import socket
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Child:
    """One process below another. `role` is processor, agent, control-plane, envoy, provider or other."""

    pid: int
    role: str
    command: str


# Below Linux's for connections; each process begins at a place of its own.
_FIRST, _PAST = 12_000, 32_000
_BEGIN = random.SystemRandom().randrange(_FIRST, _PAST)
_PORTS = itertools.cycle((*range(_BEGIN, _PAST), *range(_FIRST, _BEGIN)))


def free_ports(count: int) -> list[int]:
    """Return `count` different loopback ports that nobody listens on now, none of them twice.

    The system gives none of them to a connection, which could take it between the choice and the listening.
    """
    ports: list[int] = []
    while len(ports) < count:
        port = next(_PORTS)
        with socket.socket() as one, contextlib.suppress(OSError):
            one.bind(("", port))
            ports.append(port)
    return ports


def children(pid: int) -> list[Child]:
    """Return every process below `pid`, zombies left out."""
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and (stat := _stat(int(entry.name))) and stat[0] != "Z":
            parents.setdefault(int(stat[1]), []).append(int(entry.name))
    return list(_below(pid, parents))


def _below(pid: int, parents: dict[int, list[int]]) -> Iterator[Child]:
    for child in parents.get(pid, []):
        try:
            words = Path(f"/proc/{child}/cmdline").read_bytes().decode(errors="replace").split("\0")
        except OSError:
            continue
        yield Child(child, _role(words), " ".join(words))
        yield from _below(child, parents)


def _role(words: list[str]) -> str:
    if Path(words[0]).name == "envoy":
        return "envoy"
    for role in ("processor", "agent", "control-plane", "provider"):
        if role in words[:6]:
            return role
    return "other"


def _stat(pid: int) -> list[str] | None:
    """Return the fields of /proc/<pid>/stat from the state on (the name before it may hold spaces)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None


def alive(pid: int) -> bool:
    """Return whether `pid` runs (a zombie does not)."""
    stat = _stat(pid)
    return stat is not None and stat[0] != "Z"


def cpu_seconds(pid: int) -> float:
    """Return the CPU time that `pid` has used, user and system; 0.0 when it is gone."""
    stat = _stat(pid)
    return (int(stat[11]) + int(stat[12])) / os.sysconf("SC_CLK_TCK") if stat else 0.0


def rss_bytes(pid: int) -> int:
    """Return the resident memory of `pid`; 0 when it is gone."""
    stat = _stat(pid)
    return int(stat[21]) * os.sysconf("SC_PAGE_SIZE") if stat else 0


async def eventually(probe: Callable[[], Awaitable[bool]], seconds: float, what: str) -> None:
    """Await `probe` until it returns True.

    Raises:
        TimeoutError: it did not within `seconds`; the message names `what`.
    """
    deadline = time.monotonic() + seconds
    while not await probe():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {seconds} s: {what}")
        await asyncio.sleep(0.02)


def until(probe: Callable[[], T], seconds: float, what: str, every_s: float = 0.02) -> T:
    """Call `probe` until it returns something true and return that.

    Raises:
        TimeoutError: it did not within `seconds`; the message names `what`.
    """
    deadline = time.monotonic() + seconds
    while True:
        found = probe()
        if found:
            return found
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {seconds} s: {what}")
        time.sleep(every_s)
