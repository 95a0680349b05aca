"""`outrigger bench` and `outrigger tune` on the real Envoy, beside the provider itself."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from control_plane.tools.provider import Provider, ProviderSettings, running_provider
from tests.e2e.governed import ADMIN, BACKEND, Governed
from tests.harness.mesh import OUTRIGGER, Mesh
from tests.harness.processes import until

# Few workers that take their time, and answer many conversations in about the time of one.
SLOW = ProviderSettings(rtt_ms=5, slots=2, decode_ms_per_token=4, batch_slowdown=0.01, conversations=True)
MODEL = "kind: Model\nmetadata: {{name: {name}}}\nspec: {{versions: [{{name: v1, backend: far}}]}}\n"
POLICIES = """\
kind: Policy
metadata: {name: batching}
spec:
  target: {models: [batched]}
  batch: {mode: array, maxSize: 2, maxWait: 30ms, sendBelow: 1}
---
kind: Policy
metadata: {name: caching}
spec: {target: {models: [cached]}, cache: {enabled: true}}
"""


@pytest.fixture(scope="module")
def far() -> Iterator[Provider]:
    """A provider with two workers, in a loop of its own."""
    ready, loop = threading.Event(), asyncio.new_event_loop()
    running: list[Provider] = []

    async def serve(stop: asyncio.Event) -> None:
        async with running_provider(SLOW) as started:
            running.append(started)
            ready.set()
            await stop.wait()

    stop = asyncio.Event()
    thread = threading.Thread(target=loop.run_until_complete, args=(serve(stop),), daemon=True)
    thread.start()
    assert ready.wait(20)
    yield running[0]
    loop.call_soon_threadsafe(stop.set)
    thread.join(20)
    loop.close()


@pytest.fixture(scope="module")
def governed(far: Provider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Governed]:
    """A mesh that batches, caches, or does neither, by the model."""
    documents = "---\n".join(
        [
            BACKEND.format(name="far", port=far.port, default="true"),
            *(MODEL.format(name=name) for name in ("batched", "cached", "plain")),
            POLICIES,
        ]
    )
    with Mesh(tmp_path_factory.mktemp("tools"), documents, ("--admin-token", ADMIN)) as mesh:
        yield Governed(mesh)


def report(governed: Governed, *arguments: str) -> dict[str, Any]:
    """Run a command that measures; return its report."""
    made: dict[str, Any] = json.loads(governed.good(*arguments, "-o", "json"))
    return made


def spec(governed: Governed) -> dict[str, Any]:
    """Return what the Policy that is tuned says about batches."""
    batch: dict[str, Any] = governed.api.get("/policies/batching").json()["spec"]["batch"]
    return batch


def test_the_sidecar_and_the_provider_are_measured_alike(
    governed: Governed, far: Provider, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The same load on both, side by side; batching shows as a gain."""
    saved = tmp_path_factory.mktemp("reports") / "direct.json"
    load = ("--model", "batched", "--max-tokens", "8", "--concurrency", "16", "--requests", "200")
    direct = report(governed, "bench", "--url", far.url, *load)
    saved.write_text(json.dumps(direct))
    through = report(governed, "bench", "--url", governed.mesh.url, *load, "--compare", str(saved))
    assert (direct["errors"], through["errors"]) == (0, 0)
    assert direct["p50"] <= direct["p99"]
    assert through["batch"]["mean_size"] == 2
    assert through["comparison"]["ratios"]["good answers"] > 1.2


def test_a_cache_answers_equal_questions_only(governed: Governed) -> None:
    """Questions differ by themselves, so that no cache flatters; a fixed one shows what a cache gains."""
    load = ("bench", "--url", governed.mesh.url, "--model", "cached", "--max-tokens", "2", "--requests", "30")
    assert report(governed, *load)["cache"] == {"miss": 30}
    hits = report(governed, *load, "--prompt", "always the same")["cache"]
    assert hits["hit"] >= 10


def test_streams_are_timed_through_the_sidecar(governed: Governed) -> None:
    """To the first text, and between pieces, in an open loop."""
    made = report(
        governed,
        *("bench", "--url", governed.mesh.url, "--model", "plain", "--stream", "--max-tokens", "4"),
        *("--rate", "20", "--requests", "20", "--arrivals", "poisson"),
    )
    assert (made["errors"], made["good"]) == (0, 20)
    assert 5 < made["ttft"]["p50"] <= made["p50"]


def test_sizes_are_tried_in_the_policy_and_the_best_is_applied(governed: Governed) -> None:
    """Without --apply the Policy is as it was; with it only size and window differ, and it says which."""
    before = spec(governed)
    tune = (
        *("tune", "--url", governed.mesh.url, "--model", "batched", "--policy", "batching"),
        *(
            "--answer-tokens",
            "8",
            "--sizes",
            "1,16",
            "--windows",
            "10ms",
            "--concurrency",
            "16",
            "--requests",
            "300",
        ),
    )
    made = report(governed, *tune)
    assert (made["method"], made["applied"]) == ("policy", None)
    assert made["best"] == 16
    # It is some four times where nothing runs beside it.
    assert made["gain"]["throughput"] > 1.3
    assert spec(governed) == before

    applied = report(governed, *tune, "--apply")["applied"]
    changed = {one["field"]: (one["before"], one["after"]) for one in applied["changes"]}
    assert changed["spec.batch.maxSize"] == (2, 16)
    assert changed["spec.batch.maxWait"] == ("30ms", "10ms")
    assert spec(governed) == {**before, "maxSize": 16, "maxWait": "10ms"}


def test_ctrl_c_leaves_the_policy_as_it_was(governed: Governed) -> None:
    """With the report of what was found so far."""
    before = spec(governed)
    command = [
        str(OUTRIGGER),
        "tune",
        "--url",
        governed.mesh.url,
        "--model",
        "batched",
        "--policy",
        "batching",
    ]
    process = subprocess.Popen(
        [*command, "--sizes", "3,4", "--requests", "100000", "--concurrency", "4", "-o", "json"],
        env={**os.environ, "OUTRIGGER_SERVER": governed.server, "OUTRIGGER_TOKEN": ADMIN},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        until(lambda: spec(governed) != before, 20, "a size is tried")
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=20)
    finally:
        process.kill()
    assert (err, json.loads(out)["ended"]) == ("", "interrupted")
    assert spec(governed) == before


def test_a_token_that_may_not_write_changes_nothing(governed: Governed) -> None:
    """It is told before the Policy is touched."""
    before = spec(governed)
    token = governed.api.post("/tokens", json={"role": "viewer", "name": "reader"}).json()["token"]
    reader = Governed(governed.mesh, token)
    status, out, err = reader.run(
        *("tune", "--url", governed.mesh.url, "--model", "batched", "--policy", "batching"),
        *("--sizes", "1,4", "--requests", "40"),
    )
    assert (status, out) == (1, "")
    assert "outrigger: " in err
    assert spec(governed) == before
