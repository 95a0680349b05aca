"""A load test with a ramp: callers that wait for their answers and ask again."""

from __future__ import annotations

import random

from tests.reproduce.clients import Calls, Load, asynchronous, synchronous
from tests.reproduce.lab import Conditions, Ports
from tests.reproduce.measured import Figures, Measure, Promise, Row, Run, Table
from tests.reproduce.questions import Shape, numbered
from tests.reproduce.trials import Effort, Trial, measured

CALLERS = 200
FAQ = 10
LOADED = Conditions("loaded", rtt_ms=250, handshake_ms=250, decode_ms=12.5, error_rate=0.004)

_DOCUMENTS = """\
kind: Backend
metadata: {name: loaded}
spec: {url: "http://127.0.0.1:{loaded}/v1", http: "2"}
---
kind: Model
metadata: {name: load}
spec: {versions: [{name: v1, backend: loaded}]}
---
kind: Model
metadata: {name: load-faq}
spec: {versions: [{name: v1, backend: loaded, upstreamModel: load}]}
---
kind: Policy
metadata: {name: load-faq}
spec: {target: {models: [load-faq]}, cache: {enabled: true}, coalesce: {enabled: true}}
"""

NAIVE = "naive synchronous client, a connection a call"
EVERYTHING = "through the sidecar, everything on"


def _figures(run: Run) -> Figures:
    return (run.per_second, run.quantile_s(0.99), run.errors * 100)


async def _direct(ports: Ports, effort: Effort) -> list[Row]:
    port, load = ports.providers["loaded"], _ramped(effort)
    naive = await synchronous(port, _each_new("load-naive"), load)
    kept = await asynchronous(port, _each_new("load-kept"), load, attempts=3)
    return [
        measured(NAIVE, (162, 1.34, 0.4), naive, _figures),
        measured("asynchronous client, connections kept, 3 attempts", (235, 0.78, 0), kept, _figures),
    ]


async def _through(ports: Ports, effort: Effort) -> list[Row]:
    load = _ramped(effort)
    new = await asynchronous(ports.sidecar, _each_new("load"), load)
    shape = Shape("load-faq", LOADED.settings(), 0.2, upstream_model="load")
    faq = [shape.one(numbered(number)) for number in range(FAQ)]
    # So few calls would show little but the first asking of each; of the article's 60,000 it is one in 1,000.
    await asynchronous(ports.sidecar, faq.__getitem__, Load(FAQ, FAQ))
    drawn = random.Random(0).choices(faq, k=4096)
    hits = await asynchronous(ports.sidecar, lambda number: drawn[number % len(drawn)], load)
    return [
        measured("through the sidecar, each question new", (), new, _figures, sidecar=True),
        measured(EVERYTHING, (), hits, _figures, sidecar=True),
    ]


def _ramped(effort: Effort) -> Load:
    return Load(CALLERS, seconds=effort.seconds, ramp_s=effort.ramp_s)


def _each_new(model: str) -> Calls:
    shape = Shape(model, LOADED.settings(), 0.2)
    return lambda number: shape.one(numbered(number))


def _promises(table: Table) -> list[Promise]:
    row = table.row(EVERYTHING)
    _, ratio = table.ratios(row, 1)
    return [
        Promise(
            f"load test, {CALLERS} callers: no error, p99 at most 0.4 of the naive client's",
            f"{row.errors * 100:.2f} % errors, p99 {ratio or 0:.2f} (theirs 0.58)",
            row.errors == 0 and ratio is not None and ratio <= 0.4,
        )
    ]


TRIAL = Trial(
    key="load",
    title="Load test: 200 callers, each waiting for its answer",
    conditions="RTT 250 ms, 250 ms for TLS, 12.5 ms a token, temperature 0.2 (42 tokens); 0.4 % of"
    " calls fail with 500. The article made 300 calls for each caller with a ramp of 30 s; here a row lasts"
    f" {Effort.full().seconds:g} s, the first {Effort.full().ramp_s:g} s of them a ramp.",
    provider=LOADED,
    documents=(_DOCUMENTS,),
    measures=(Measure("requests/s"), Measure("p99", "s", less=True), Measure("errors", "%", plain=True)),
    naive=NAIVE,
    direct=_direct,
    through=_through,
    notes="The answer to a question that nobody has asked costs a round trip and the time to write it, 0.78"
    " s, whoever forwards it: that is the article's 0.58. Below that only answers come that need no call. The"
    f" article's test repeats its questions; with {FAQ} of them, each asked once before, memory answers.",
    promises=_promises,
)
