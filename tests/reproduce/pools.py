"""Connections that callers share, on HTTP/1.1 and HTTP/2, and the temperature that makes answers long."""

from __future__ import annotations

from tests.reproduce.clients import Calls, Load, asynchronous, multiplexed, pooled, together
from tests.reproduce.lab import Conditions, Ports
from tests.reproduce.measured import Figures, Measure, Row, Run
from tests.reproduce.questions import Shape, numbered
from tests.reproduce.trials import Effort, Trial, measured

CALLERS = 50
POOLED = Conditions("pooled", rtt_ms=250, handshake_ms=250, decode_ms=12.5, output_tokens=23.2)
HEATED = Conditions("heated", rtt_ms=5, handshake_ms=5, decode_ms=12.4)

_POOL_DOCUMENTS = """\
kind: Backend
metadata: {name: pooled}
spec: {url: "http://127.0.0.1:{pooled}/v1", http: "2"}
---
kind: Model
metadata: {name: pooled}
spec: {versions: [{name: v1, backend: pooled}]}
"""
_HEAT_DOCUMENTS = """\
kind: Backend
metadata: {name: heated}
spec: {url: "http://127.0.0.1:{heated}/v1"}
---
kind: Model
metadata: {name: heated}
spec: {versions: [{name: v1, backend: heated}]}
---
kind: Policy
metadata: {name: heated}
spec: {target: {models: [heated]}, parameters: {temperature: {max: 0.2}}}
"""

POOL = "HTTP/1.1, two callers to a kept connection"
HOT = "temperature 0.8"


def _pool_figures(run: Run) -> Figures:
    return (run.per_second, run.quantile_s(0.99))


async def _pools(ports: Ports, effort: Effort) -> list[Row]:
    port, load = ports.providers["pooled"], Load(CALLERS, seconds=effort.seconds)
    one, two = await together(
        pooled(port, _pool_calls("pool-one"), load, connections=CALLERS // 2),
        multiplexed(port, _pool_calls("pool-two"), load),
    )
    return [
        measured(POOL, (165, 1.28), one, _pool_figures),
        measured("HTTP/2, one connection", (210, 0.91), two, _pool_figures),
        Row("gRPC, streams both ways", (245, 0.73)),
    ]


async def _pools_through(ports: Ports, effort: Effort) -> list[Row]:
    load = Load(CALLERS, seconds=effort.seconds)
    run = await asynchronous(ports.sidecar, _pool_calls("pooled"), load)
    return [
        measured("HTTP/1.1 to the sidecar, HTTP/2 from there", (), run, _pool_figures, sidecar=True),
    ]


def _pool_calls(model: str) -> Calls:
    shape = Shape(model, POOLED.settings(), 0.2)
    return lambda number: shape.one(numbered(number))


def _heat_figures(run: Run) -> Figures:
    return (run.tokens_each, run.mean_s)


async def _heat(ports: Ports, effort: Effort) -> list[Row]:
    hot, cool = await together(*(_heated(ports.providers["heated"], warmth) for warmth in (0.8, 0.2)))
    return [
        measured(HOT, (78, 0.98), hot, _heat_figures),
        measured("temperature 0.2", (42, 0.52), cool, _heat_figures),
    ]


async def _heat_through(ports: Ports, effort: Effort) -> list[Row]:
    run = await _heated(ports.sidecar, 0.2, asked=0.8)
    name = "asked with 0.8 through the sidecar, bounded to 0.2 by its Policy"
    return [measured(name, (), run, _heat_figures, sidecar=True)]


async def _heated(port: int, temperature: float, asked: float | None = None) -> Run:
    shape = Shape("heated", HEATED.settings(), temperature, asked_temperature=asked)
    return await asynchronous(port, lambda number: shape.one(numbered(number)), Load(40, 80))


PROTOCOLS = Trial(
    key="protocols",
    title="Protocols: connections that callers share",
    conditions="RTT 250 ms, 250 ms for TLS, 12.5 ms a token, 28 tokens: so long that a pool of 100"
    " connections, as the article's client has, carries its 165 a second. Here 50 callers share 25, a"
    " quarter, since HTTP/2 in Python costs 3 ms of CPU a call.",
    provider=POOLED,
    documents=(_POOL_DOCUMENTS,),
    measures=(Measure("requests/s"), Measure("p99", "s", less=True)),
    naive=POOL,
    direct=_pools,
    through=_pools_through,
    patient=True,
    notes="No provider with OpenAI's API speaks gRPC. What gains is that no caller waits for a connection:"
    " the sidecar needs one to the provider, and the application need not know of HTTP/2.",
)

TEMPERATURE = Trial(
    key="temperature",
    title="Temperature and the length of answers",
    conditions="RTT 5 ms, 12.4 ms a token. The article's two points lie on a line through zero,"
    " which leaves no room for a far provider.",
    provider=HEATED,
    documents=(_HEAT_DOCUMENTS,),
    measures=(Measure("tokens", less=True), Measure("mean latency", "s", less=True)),
    naive=HOT,
    direct=_heat,
    through=_heat_through,
    patient=True,
)
