"""The metrics port: each call moves exactly one series, and only configured names become labels."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.harness.mesh import Mesh, http_status, http_text
from tests.harness.processes import until
from tests.harness.raw_http import ask, connect, json_request, post, request_bytes
from tests.harness.rude import STREAM_HEAD, Act, RudeProvider, chunk, completion, delta, event, reply

CHAT = "/v1/chat/completions"
GOOD = {"model": "plain", "messages": [{"role": "user", "content": "hello"}]}

Series = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def series(mesh: Mesh, prefix: str = "") -> Series:
    """Return every sample whose name begins with `prefix`."""
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(mesh.metrics())
        for sample in family.samples
        if sample.name.startswith(prefix) and not sample.name.endswith("_created")
    }


def moved(before: Series, after: Series) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """Return what changed, and by how much."""
    return {
        key: value - before.get(key, 0.0) for key, value in after.items() if value != before.get(key, 0.0)
    }


def total(found: Series) -> float:
    """Return the sum of all samples."""
    return sum(found.values())


async def settled(mesh: Mesh, before: Series, count: int) -> Series:
    """Wait until `count` calls more are counted, and a little longer for one too many."""
    name = "openai_request_total"

    def counted() -> bool:
        return total(series(mesh, name)) >= total(before) + count

    await asyncio.to_thread(until, counted, 5, f"{count} calls are counted")
    await asyncio.sleep(0.6)  # two flushes of Envoy's access log: nothing more may come
    return series(mesh, name)


async def _plain(mesh: Mesh, rude: RudeProvider, name: str) -> None:
    await post(mesh.proxy_port, GOOD)


async def _stream(mesh: Mesh, rude: RudeProvider, name: str) -> None:
    await post(mesh.proxy_port, {**GOOD, "stream": True})


async def _bad(mesh: Mesh, rude: RudeProvider, name: str) -> None:
    await ask(mesh.proxy_port, json_request(CHAT, b"{"))


async def _refused(mesh: Mesh, rude: RudeProvider, name: str) -> None:
    await post(mesh.proxy_port, {**GOOD, "model": "refuse-me"})


async def _gone(mesh: Mesh, rude: RudeProvider, name: str) -> None:
    await post(mesh.proxy_port, {**GOOD, "model": "gone"})


async def _error(mesh: Mesh, rude: RudeProvider, name: str) -> None:
    await post(mesh.proxy_port, {**GOOD, "model": "twice"}, rude.script(name, reply(503, b'{"error": {}}')))


async def _cut_json(mesh: Mesh, rude: RudeProvider, name: str) -> None:
    head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 99\r\n\r\n{"
    answer = await post(mesh.proxy_port, {**GOOD, "model": "once"}, rude.script(name, [head, Act.CLOSE]))
    assert answer.status == 502


async def _upgrade(mesh: Mesh, rude: RudeProvider, name: str) -> None:
    headers = [("connection", "upgrade"), ("upgrade", "websocket")]
    assert (await ask(mesh.proxy_port, request_bytes("GET", "/v1/realtime", None, headers))).status == 400


async def _other_path(mesh: Mesh, rude: RudeProvider, name: str) -> None:
    await ask(mesh.proxy_port, request_bytes("GET", "/v1/files"))


async def _hang_up(mesh: Mesh, rude: RudeProvider, name: str) -> None:
    headers = rude.script(name, [Act.HOLD])
    async with await connect(mesh.proxy_port) as connection:
        await connection.send(json_request(CHAT, GOOD, list(headers.items())))
        await asyncio.to_thread(until, lambda: rude.seen(name), 5, "the call is upstream")


async def _hang_up_in_a_stream(mesh: Mesh, rude: RudeProvider, name: str) -> None:
    headers = rude.script(name, [STREAM_HEAD, chunk(event(delta("one"))), Act.HOLD])
    async with await connect(mesh.proxy_port) as connection:
        await connection.send(json_request(CHAT, {**GOOD, "stream": True}, list(headers.items())))
        await connection.receive_head()


@pytest.mark.parametrize(
    ("call", "status"),
    [
        (_plain, "200"),
        (_stream, "200"),
        (_bad, "400"),
        (_refused, "404"),
        (_gone, "50"),
        (_error, "503"),
        (_cut_json, "502"),
        (_upgrade, "400"),
        (_other_path, "200"),
        (_hang_up, "aborted"),
        (_hang_up_in_a_stream, "aborted"),
    ],
    ids=lambda value: getattr(value, "__name__", value).strip("_"),
)
async def test_each_call_moves_exactly_one_series(
    mesh: Mesh,
    rude: RudeProvider,
    script: str,
    call: Callable[[Mesh, RudeProvider, str], Any],
    status: str,
) -> None:
    """Whatever becomes of a call, one series of `openai_request_total` goes up by one; none is a bypass."""
    await asyncio.sleep(0.4)  # what earlier tests left in Envoy's access log
    before, bypassed = series(mesh, "openai_request_total"), series(mesh, "outrigger_bypass_total")
    await call(mesh, rude, script)
    after = await settled(mesh, before, 1)
    assert series(mesh, "outrigger_bypass_total") == bypassed
    change = moved(before, after)
    assert list(change.values()) == [1.0], change
    ((_, labels),) = change
    assert dict(labels)["status"].startswith(status)


async def test_an_agent_that_stands_still_costs_no_count(mesh: Mesh) -> None:
    """What ended meanwhile is counted once it goes on, each call once."""
    before = series(mesh, "openai_request_total")
    (agent,) = (child.pid for child in mesh.children() if child.role == "agent")
    os.kill(agent, signal.SIGSTOP)
    try:
        for _ in range(15):
            await post(mesh.proxy_port, GOOD)
            await asyncio.sleep(0.1)
    finally:
        os.kill(agent, signal.SIGCONT)
    after = await settled(mesh, before, 15)
    assert total(after) - total(before) == 15


async def test_a_hit_and_a_miss_are_told_apart(mesh: Mesh, rude: RudeProvider, script: str) -> None:
    """A counter has the label values hit, miss and bypass; a hit moves no token counter."""
    document = {"model": "cached", "messages": [{"role": "user", "content": script}]}
    start = series(mesh)
    await post(mesh.proxy_port, document)
    await settled(mesh, {k: v for k, v in start.items() if k[0] == "openai_request_total"}, 1)
    middle = series(mesh)
    await post(mesh.proxy_port, document)
    await settled(mesh, {k: v for k, v in middle.items() if k[0] == "openai_request_total"}, 1)
    end = series(mesh)

    def cache_counts(change: Series) -> set[str]:
        return {
            value
            for (name, labels) in change
            if "cache" in name
            for _, value in labels
            if value in ("hit", "miss", "bypass")
        }

    assert cache_counts(moved(start, middle)) == {"miss"}
    assert cache_counts(moved(middle, end)) == {"hit"}
    assert any("token_usage" in name for name, _ in moved(start, middle))
    assert not any("token_usage" in name for name, _ in moved(middle, end))


async def test_names_of_the_conventions_are_there(mesh: Mesh) -> None:
    """The names of `openai_request_*` and OTel's GenAI names are exposed, by Model."""
    await post(mesh.proxy_port, GOOD)
    await asyncio.sleep(0.8)
    found = series(mesh)
    durations = [dict(labels) for name, labels in found if name == "openai_request_duration_bucket"]
    assert any(labels["model"] == "plain" for labels in durations)
    assert any(name.startswith("gen_ai_client_operation_duration") for name, _ in found)
    assert any(name.startswith("gen_ai_client_token_usage") for name, _ in found)


async def test_invented_names_make_no_series(mesh: Mesh, rude: RudeProvider) -> None:
    """Hundreds of invented models, users, sessions, tiers, keys, agents and paths add hardly a series."""

    async def invent(number: int) -> None:
        headers = {
            "authorization": f"Bearer sk-{number}",
            "user-agent": f"agent-{number}",
            "x-outrigger-tier": f"tier-{number}",
            "x-outrigger-session": f"session-{number}",
        }
        await post(mesh.proxy_port, {**GOOD, "model": f"invented-{number}", "user": f"u{number}"}, headers)
        await ask(mesh.proxy_port, request_bytes("GET", f"/v1/invented/{number}"))

    await invent(-1)
    await asyncio.sleep(0.8)
    before = series(mesh)
    for start in range(0, 200, 20):
        await asyncio.gather(*(invent(number) for number in range(start, start + 20)))
    await asyncio.sleep(0.8)
    after = series(mesh)
    assert len(after) - len(before) <= 20
    assert "invented" not in mesh.metrics()


async def test_the_metrics_port_serves_metrics_only(mesh: Mesh) -> None:
    """`GET /metrics` is text for Prometheus; other paths are 404; no token is needed."""
    base = f"http://127.0.0.1:{mesh.metrics_port}"
    assert "# TYPE openai_request_total counter" in http_text(f"{base}/metrics") or (
        "# TYPE openai_request counter" in http_text(f"{base}/metrics")
    )
    assert http_status(f"{base}/other") == 404


async def test_tokens_are_counted_once(mesh: Mesh, rude: RudeProvider, script: str) -> None:
    """The usage of a JSON answer goes into the token histogram as it is."""
    await asyncio.sleep(0.4)
    headers = rude.script(script, reply(200, completion()))
    before = series(mesh, "gen_ai_client_token_usage")
    await post(mesh.proxy_port, GOOD, headers)
    await asyncio.sleep(0.8)
    change = moved(before, series(mesh, "gen_ai_client_token_usage"))
    sums = sorted(value for (name, _), value in change.items() if name.endswith("_sum"))
    assert sums == [3.0, 9.0]
