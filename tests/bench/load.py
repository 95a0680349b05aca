"""Load on a URL: wrk for requests a second, a bare asyncio client for the time of single calls."""

from __future__ import annotations

import asyncio
import json
import math
import os
import re
import shutil
import statistics
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

CONNECTIONS = 16
_UNITS = {"us": 0.001, "ms": 1.0, "s": 1000.0}

_SCRIPT = """
wrk.method = "POST"
wrk.body = io.open("{body}", "rb"):read("*a")
wrk.headers["content-type"] = "application/json"
{headers}
function done(summary, latency, requests)
  io.write(string.format("%d %d %d %d\\n", summary.requests, summary.duration,
    summary.errors.status + summary.errors.connect + summary.errors.read + summary.errors.timeout,
    latency:percentile(50)))
end
"""


class LoadFailed(Exception):
    """The load generator is missing, or requests failed."""


@dataclass(frozen=True, slots=True)
class Load:
    """What wrk measured. `p50_ms` is at as many connections as it had."""

    requests: int
    per_second: float
    errors: int
    p50_ms: float


def ensure_wrk() -> None:
    """Install wrk when it is absent and we may.

    Raises:
        LoadFailed: it is absent and cannot be installed.
    """
    if shutil.which("wrk"):
        return
    if os.geteuid() == 0 and shutil.which("apt-get"):
        subprocess.run(["apt-get", "update", "-qq"], check=False)
        subprocess.run(["apt-get", "install", "-y", "-qq", "wrk"], check=False)
    if not shutil.which("wrk"):
        raise LoadFailed("wrk is not installed; run: apt-get install wrk")


def chat_body(model: str, size: int = 230) -> bytes:
    """Return a chat request of exactly `size` bytes."""

    def build(text: str) -> bytes:
        messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": text}]
        return json.dumps({"model": model, "messages": messages, "temperature": 0.2}).encode()

    return build("x" * (size - len(build(""))))


def wrk(
    url: str,
    body: bytes,
    seconds: float,
    folder: Path,
    headers: Mapping[str, str] | None = None,
    *,
    connections: int = CONNECTIONS,
) -> Load:
    """POST `body` to `url` for `seconds`, `connections` at a time.

    Raises:
        LoadFailed: wrk could not run.
    """
    body_path, script_path = folder / "body.json", folder / "post.lua"
    body_path.write_bytes(body)
    lines = "\n".join(f'wrk.headers["{name}"] = "{value}"' for name, value in (headers or {}).items())
    script_path.write_text(_SCRIPT.format(body=body_path, headers=lines), encoding="utf-8")
    command = ["wrk", "-t1", f"-c{connections}", f"-d{math.ceil(seconds)}s", "-s", str(script_path), url]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    found = re.search(r"^(\d+) (\d+) (\d+) (\d+)$", run.stdout, re.MULTILINE)
    if run.returncode or not found:
        raise LoadFailed(f"wrk failed on {url}: {run.stdout}{run.stderr}")
    requests, microseconds, errors, p50 = (int(number) for number in found.groups())
    return Load(requests, requests / (microseconds / 1e6), errors, p50 / 1000)


@dataclass(frozen=True, slots=True)
class Timing:
    """One call: to the first byte of the body, and to its end. `status` is the answer's."""

    status: int
    first_ms: float
    total_ms: float
    received_bytes: int


async def time_calls(
    port: int, body: bytes, count: int, headers: Mapping[str, str] | None = None
) -> list[Timing]:
    """Make `count` chat calls one after the other on one connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=64 * 1024 * 1024)
    more = "".join(f"{name}: {value}\r\n" for name, value in (headers or {}).items())
    head = (
        "POST /v1/chat/completions HTTP/1.1\r\nhost: bench\r\ncontent-type: application/json\r\n"
        f"{more}content-length: {len(body)}\r\n\r\n"
    ).encode()
    timings = []
    try:
        for _ in range(count):
            began = time.perf_counter()
            writer.write(head + body)
            await writer.drain()
            timings.append(await _read_answer(reader, began))
    finally:
        writer.close()
    return timings


async def _read_answer(reader: asyncio.StreamReader, began: float) -> Timing:
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    status = int(head.split(b" ", 2)[1])
    size = 0
    if found := re.search(rb"content-length: (\d+)", head):
        length = int(found.group(1))
        size = len(await reader.readexactly(length))
        first = time.perf_counter()
    else:
        first = 0.0
        while length := int(await reader.readuntil(b"\r\n"), 16):
            size += len(await reader.readexactly(length + 2)) - 2
            first = first or time.perf_counter()
        await reader.readexactly(2)
    ended = time.perf_counter()
    return Timing(status, ((first or ended) - began) * 1000, (ended - began) * 1000, size)


def p50(timings: list[Timing], first: bool = False) -> float:
    """Return the median in ms, to the end of the answer or to its first byte.

    Raises:
        LoadFailed: a call was not answered with 200.
    """
    if bad := [timing for timing in timings if timing.status != 200]:
        raise LoadFailed(f"{len(bad)} of {len(timings)} calls failed, the first with {bad[0].status}")
    return statistics.median(timing.first_ms if first else timing.total_ms for timing in timings)
