"""The rows of the report: each function measures one promise and returns what it found."""

from __future__ import annotations

import asyncio
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tests.bench.lab import Lab, Target
from tests.bench.load import Load, Timing, chat_body, p50, time_calls, wrk
from tests.bench.upstream import PACED
from tests.harness.processes import cpu_seconds, rss_bytes

MIB = 1024 * 1024
LONG_STREAM = 1000
# One chunk more than come paced: one stream follows the other at once.
QUICK_STREAM = PACED + 1


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the report. `passed` is None where nothing is promised."""

    name: str
    target: str
    measured: str
    passed: bool | None
    figures: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Effort:
    """How long to measure."""

    rounds: int
    seconds: float
    calls: int
    requests: int

    @classmethod
    def quick(cls) -> Effort:
        """At most two minutes in all."""
        return cls(rounds=2, seconds=2, calls=150, requests=20_000)

    @classmethod
    def full(cls) -> Effort:
        """What the promises are held to."""
        return cls(rounds=5, seconds=6, calls=600, requests=200_000)


class Bench:
    """Measures a running lab. It counts what it sends to the product, for the row on memory."""

    def __init__(self, lab: Lab, effort: Effort) -> None:
        self._lab = lab
        self._effort = effort
        self._sent = 0
        self._idle = rss_bytes(self._processor())

    def rows(self) -> dict[str, Callable[[], list[Row]]]:
        """Return every measurement by the name that `--only` takes."""
        return {
            "throughput": self.throughput,
            "latency": self.latency,
            "stream": self.stream,
            "body": self.body,
            "memory": self.memory,
            "rivals": self.rivals,
        }

    def throughput(self) -> list[Row]:
        """Requests a second and CPU a request, product against floor, pass-through and cache hit."""
        targets = ["envoy", "floor", "bare", "product", "floor-hit", "bare-hit", "product-hit"]
        loads, cpu = self._interleave([self._lab.targets[name] for name in targets])
        rows = [_plain_row(f"{name}: requests/s", loads[name], cpu[name]) for name in targets]
        rows.append(_ratio_row("pass-through / floor", loads["product"], loads["floor"], 0.75))
        rows.append(_ratio_row("cache hit / floor", loads["product-hit"], loads["floor-hit"], 0.85))
        rows.append(_ratio_row("pass-through / bare loop", loads["product"], loads["bare"], 0.7))
        rows.append(_ratio_row("cache hit / bare loop", loads["product-hit"], loads["bare-hit"], 0.75))
        return rows

    def latency(self) -> list[Row]:
        """p50 of one call at a time: product, floors, and Envoy with nothing beside it."""
        names = ["product", "floor", "bare", "product-hit", "floor-hit", "bare-hit", "envoy"]
        found = dict(zip(names, self._p50s(names, self._effort.calls), strict=True))
        product, floor, bare, hit, floor_hit, bare_hit, envoy = found.values()
        told = f"{product:.2f} ms, floor {floor:.2f} ms, bare loop {bare:.2f} ms, Envoy alone {envoy:.2f} ms"
        told_hit = f"{hit:.2f} ms, floor {floor_hit:.2f} ms, bare loop {bare_hit:.2f} ms"
        added, added_bare = product - envoy, bare - envoy
        told_added = f"{added:.2f} ms (bare loop {added_bare:.2f} ms)"
        return [
            Row("p50, 1 connection", "≤ floor + 0.3 ms", told, product <= floor + 0.3, found),
            Row("p50, 1 connection, cache hit", "", told_hit, None),
            Row("p50 added at 1 connection", "≤ 0.6 ms", told_added, added <= 0.6, {"ms": added}),
        ]

    def stream(self) -> list[Row]:
        """Time to the first byte of a stream, and the ext_proc messages it costs."""
        quick, quick_whole = self._added_to_streams(QUICK_STREAM, self._effort.calls)
        paced, paced_whole = self._added_to_streams(PACED, max(5, self._effort.calls // 10))
        before = self._messages()
        asyncio.run(time_calls(self._lab.mesh.proxy_port, _stream_body(LONG_STREAM), 10))
        messages = (self._messages() - before) / 10
        return [
            Row(
                "TTFT added to a stream, p50",
                "≤ 2 ms",
                f"{quick:.2f} ms",
                quick <= 2 and quick_whole and paced_whole,
                {"ms": quick},
            ),
            # Between two such streams every process has slept for a tenth of a second: its waking counts.
            Row(
                "TTFT added, each stream a tenth of a second long", "", f"{paced:.2f} ms", None, {"ms": paced}
            ),
            Row(
                f"ext_proc messages, {LONG_STREAM} chunks",
                "≤ 4",
                f"{messages:g}" if messages else "not counted by Envoy",
                0 < messages <= 4,
                {"messages": messages},
            ),
        ]

    def _added_to_streams(self, chunks: int, calls: int) -> tuple[float, bool]:
        """Return the p50 that the mesh adds to a stream's first byte, and whether all came whole."""
        body = _stream_body(chunks)
        through: list[Timing] = []
        direct: list[Timing] = []
        for _ in range(self._effort.rounds):
            direct += asyncio.run(time_calls(self._lab.streams_port, body, calls))
            through += asyncio.run(time_calls(self._lab.mesh.proxy_port, body, calls))
        sizes = {timing.received_bytes for timing in direct} == {timing.received_bytes for timing in through}
        return p50(through, first=True) - p50(direct, first=True), sizes

    def body(self) -> list[Row]:
        """What large request bodies cost."""
        calls = max(10, self._effort.calls // 20)
        big = chat_body("bench", MIB)
        through: list[Timing] = []
        direct: list[Timing] = []
        for _ in range(self._effort.rounds):
            direct += asyncio.run(time_calls(self._lab.direct_port, big, calls))
            through += asyncio.run(time_calls(self._lab.mesh.proxy_port, big, calls))
        added = p50(through) - p50(direct)
        huge = asyncio.run(time_calls(self._lab.mesh.proxy_port, chat_body("bench", 20 * MIB), 1))[0]
        measured = f"{huge.status} in {huge.total_ms:.0f} ms"
        return [
            Row("1 MiB body adds, p50", "≤ 15 ms", f"{added:.1f} ms", added <= 15, {"ms": added}),
            Row("20 MiB body", "200", measured, huge.status == 200, {"ms": huge.total_ms}),
        ]

    def memory(self) -> list[Row]:
        """The processor's resident memory, idle and after many requests."""
        target = self._lab.targets["product"]
        first = rss_bytes(self._processor())
        while self._sent < self._effort.requests:
            self._load(target, min(30.0, max(2.0, (self._effort.requests - self._sent) / 4000)))
        grown = rss_bytes(self._processor()) - self._idle
        figures = {"idle": self._idle / MIB, "grown": grown / MIB, "before_last_load": first / MIB}
        measured = f"{grown / MIB:+.1f} MB after {self._sent:,} requests"
        return [
            Row("processor RSS, idle", "≤ 120 MB", f"{self._idle / MIB:.0f} MB", self._idle <= 120 * MIB),
            Row(f"RSS after {self._effort.requests:,}", "< 5 MB more", measured, grown < 5 * MIB, figures),
        ]

    def rivals(self) -> list[Row]:
        """The rivals in the same run, beside the product."""
        if not self._lab.rivals:
            return [Row("rivals", "", "none installed: make bench RIVALS=1", None)]
        targets = [self._lab.targets["product"], *self._lab.rivals]
        loads, cpu = self._interleave(targets)
        rows = []
        for target in targets:
            body = chat_body("bench")
            single = p50(asyncio.run(time_calls(target.port, body, 100, headers=target.headers)))
            row = _plain_row(f"{target.name}: requests/s", loads[target.name], cpu[target.name])
            measured = f"{row.measured}; p50 at 1 connection {single:.2f} ms"
            rows.append(Row(row.name, "", measured, None, {**row.figures, "p50_ms": single}))
        return rows

    def _interleave(
        self, targets: Sequence[Target]
    ) -> tuple[dict[str, list[Load]], dict[str, dict[str, float]]]:
        """Load each target in turn, `rounds` times; return the loads, and CPU µs a request by process."""
        loads: dict[str, list[Load]] = {target.name: [] for target in targets}
        spent: dict[str, dict[str, float]] = {
            target.name: dict.fromkeys(target.pids, 0.0) for target in targets
        }
        for target in targets:
            self._load(target, 1.0)
        for _ in range(self._effort.rounds):
            for target in targets:
                before = {name: cpu_seconds(pid) for name, pid in target.pids.items()}
                loads[target.name].append(self._load(target, self._effort.seconds))
                for name, pid in target.pids.items():
                    spent[target.name][name] += cpu_seconds(pid) - before[name]
        cpu = {
            name: {part: value * 1e6 / max(1, _total(loads[name])) for part, value in parts.items()}
            for name, parts in spent.items()
        }
        return loads, cpu

    def _load(self, target: Target, seconds: float) -> Load:
        load = wrk(target.url, chat_body(target.model), seconds, self._lab.folder, target.headers)
        if target.port == self._lab.mesh.proxy_port:
            self._sent += load.requests
        return load

    def _p50s(self, names: Sequence[str], calls: int) -> list[float]:
        timings: dict[str, list[Timing]] = {name: [] for name in names}
        for _ in range(self._effort.rounds):
            for name in names:
                target = self._lab.targets[name]
                found = asyncio.run(time_calls(target.port, chat_body(target.model), calls))
                timings[name] += found[len(found) // 10 :]
        return [p50(timings[name]) for name in names]

    def _messages(self) -> int:
        stats = self._lab.mesh.envoy_stats(r"ext_proc.*stream_msgs_sent")
        return sum(stats.values())

    def _processor(self) -> int:
        return self._lab.targets["product"].pids["processor"]


def _stream_body(chunks: int) -> bytes:
    return chat_body("bench-streams")[:-1] + b', "stream": true, "max_tokens": %d}' % chunks


def _total(loads: list[Load]) -> int:
    return sum(load.requests for load in loads)


def _median(loads: list[Load]) -> float:
    return statistics.median(load.per_second for load in loads)


def _plain_row(name: str, loads: list[Load], cpu: dict[str, float]) -> Row:
    errors = sum(load.errors for load in loads)
    parts = " + ".join(f"{part} {value:.0f}" for part, value in sorted(cpu.items()))
    measured = f"{_median(loads):,.0f}; CPU µs/request: {parts or '–'}"
    if errors:
        measured += f"; {errors} errors"
    figures = {"per_second": _median(loads), "errors": float(errors)}
    figures |= {f"cpu_us_{part}": value for part, value in cpu.items()}
    return Row(name, "no errors", measured, errors == 0, figures)


def _ratio_row(name: str, product: list[Load], floor: list[Load], least: float) -> Row:
    ratio = _median(product) / _median(floor)
    return Row(name, f"≥ {least}", f"{ratio:.2f}", ratio >= least, {"ratio": ratio})
