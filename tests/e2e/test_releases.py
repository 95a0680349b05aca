"""Grey releases in the mesh: shares that are met, a bad version that goes back by itself, restarts."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.e2e.governed import ADMIN, BACKEND, HELLO, Governed
from tests.harness.mesh import OUTRIGGER, Mesh, http_status
from tests.harness.plain import PLAIN
from tests.harness.processes import free_ports, until
from tests.harness.rude import Piece, RudeProvider, Seen, completion, delta, event, reply, stream_reply

MODEL = """\
kind: Model
metadata: {name: m}
spec:
  versions:
    - {name: old, backend: simulated, upstreamModel: old}
    - {name: new, backend: bad, upstreamModel: new, weight: 0}
    - {name: twin, backend: simulated, upstreamModel: twin, weight: 0}
"""
SPARED = """\
kind: Model
metadata: {name: spared}
spec:
  versions:
    - {name: old, backend: simulated, upstreamModel: old}
    - {name: new, backend: bad, upstreamModel: new, weight: 0}
  fallbacks: [m]
"""
TALKER = """\
kind: Model
metadata: {name: talker}
spec:
  versions:
    - {name: old, backend: rude, upstreamModel: old}
    - {name: new, backend: rude, upstreamModel: new, weight: 0}
"""
SET = """\
kind: Model
metadata: {name: set}
spec:
  versions:
    - {name: old, backend: simulated, upstreamModel: same}
    - {name: capped, backend: simulated, upstreamModel: same, weight: 0,
       policy: {parameters: {maxTokens: {max: 3}}, retry: {attempts: 2}, hold: {max: 5s}}}
"""
POLICY = "kind: Policy\nmetadata: {name: once}\nspec: {retry: {attempts: 1}}\n"


def release(name: str, *, to: str = "new", **spec: Any) -> dict[str, Any]:
    """Return a Release of `m`."""
    wanted = {"model": "m", "from": "old", "to": to, "bake": "1h", **spec}
    return {"kind": "Release", "metadata": {"name": name}, "spec": wanted}


@pytest.fixture(scope="module")
def bad(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """A provider of which every second answer is an error."""
    port = free_ports(1)[0]
    with (tmp_path_factory.mktemp("bad") / "log").open("wb") as log:
        process = subprocess.Popen(
            [str(OUTRIGGER), "provider", "--port", str(port), "--error-rate", "0.5"],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
    until(lambda: http_status(f"http://127.0.0.1:{port}/v1/models") == 200, 20, "the bad provider listens")
    yield port
    process.send_signal(signal.SIGTERM)
    process.wait(10)


@pytest.fixture(scope="module")
def rude() -> Iterator[RudeProvider]:
    """A provider that answers as it is told to."""
    with RudeProvider() as provider:
        yield provider


@pytest.fixture(scope="module")
def governed(
    bad: int, simulated: int, rude: RudeProvider, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Governed]:
    """One mesh with a good, a bad and another good version of the Model `m`."""
    good = BACKEND.format(name="simulated", port=simulated, default="true")
    documents = "---\n".join(
        [
            good,
            BACKEND.format(name="bad", port=bad, default="false"),
            BACKEND.format(name="rude", port=rude.port, default="false"),
            MODEL,
            SPARED,
            TALKER,
            SET,
            POLICY,
        ]
    )
    folder: Path = tmp_path_factory.mktemp("releases")
    with Mesh(folder, documents, options=["--admin-token", ADMIN]) as mesh:
        yield Governed(mesh)


@pytest.fixture(autouse=True)
def _no_release_left(governed: Governed) -> Iterator[None]:
    """Each test begins with the Model's own weights."""
    yield
    for found in governed.api.get("releases").json()["items"]:
        governed.api.delete(f"releases/{found['metadata']['name']}").raise_for_status()


def apply(governed: Governed, document: dict[str, Any]) -> None:
    """Apply a Release and wait until the sidecar follows it."""
    name = document["metadata"]["name"]
    governed.api.put(f"releases/{name}", json=document).raise_for_status()
    followed(governed)


def followed(governed: Governed) -> None:
    """Wait until the sidecar holds what is in force: a second at most."""
    until(lambda: all(one["inForce"] for one in governed.api.get("sidecars").json()["items"]), 3, "in force")


def status(governed: Governed, name: str) -> dict[str, Any]:
    """Return how far a Release is."""
    found: dict[str, Any] = governed.api.get(f"releases/{name}").json()["status"]
    return found


async def called(governed: Governed, number: int, model: str = "m", **headers: str) -> list[tuple[int, str]]:
    """Call a Model so many times; return each status with the version that answered."""
    return await called_by(governed, [headers] * number, model)


async def called_by(
    governed: Governed, callers: Sequence[Mapping[str, str]], model: str = "m", **more: Any
) -> list[tuple[int, str]]:
    """Call a Model once with the headers of each caller."""
    async with httpx.AsyncClient(base_url=governed.mesh.url, timeout=30, verify=PLAIN) as client:
        body = {"model": model, **HELLO, **more}
        room = asyncio.Semaphore(20)

        async def one(headers: Mapping[str, str]) -> tuple[int, str]:
            async with room:
                answer = await client.post("chat/completions", json=body, headers=headers)
            return answer.status_code, answer.headers.get("x-outrigger-version", "")

        return await asyncio.gather(*map(one, callers))


def counted(governed: Governed, series: str, **labels: str) -> float:
    """Return the sum of a counter's series with these labels."""
    wanted = [f'{name}="{value}"' for name, value in labels.items()]
    lines = (line for line in governed.mesh.metrics().splitlines() if line.startswith(f"{series}{{"))
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines if all(label in line for label in wanted))


async def all_counted(governed: Governed, series: str) -> float:
    """Return the sum of a counter's series when what was called before has been counted."""
    found = -1.0
    while (now := counted(governed, series)) != found:
        found = now
        await asyncio.sleep(0.6)
    return found


def versions(found: list[tuple[int, str]]) -> Counter[str]:
    """Count by version."""
    return Counter(version for _, version in found)


async def test_people_lead_a_release_to_its_end(governed: Governed) -> None:
    """Shares are exact at 0 and 100, sessions keep their version as it grows, deleting gives weights back."""
    apply(governed, release("led", to="twin", steps=[10, 60], match={"headers": {"x-team": "a"}}))
    assert versions(await called(governed, 40)) == {"old": 40}
    callers = [{"x-team": "a", "x-outrigger-session": f"s{number}"} for number in range(40)]
    shares = [status(governed, "led")["share"]]
    on_new: set[int] = set()
    while True:
        found = await called_by(governed, callers)
        now = {number for number, (_, version) in enumerate(found) if version == "twin"}
        assert on_new <= now
        on_new = now
        if shares[-1] == 100:
            break
        code, out, err = governed.run("release", "promote", "led", "-o", "json")
        assert code == 0, err
        shares.append(json.loads(out)["status"]["share"])
        followed(governed)
    assert shares == [10, 60, 100]
    assert len(on_new) == 40
    until(lambda: status(governed, "led")["phase"] == "done", 5, "the release is done")
    assert governed.run("release", "promote", "led")[0] == 1
    assert governed.api.post("releases/led/abort").status_code == 409
    governed.api.delete("releases/led").raise_for_status()
    followed(governed)
    assert versions(await called(governed, 20, **{"x-team": "a"})) == {"old": 20}


async def test_a_bad_version_goes_back_by_itself(governed: Governed) -> None:
    """Under load: nobody but its own callers sees an error, and soon nobody is on it."""
    apply(governed, release("bad", steps=[20, 100], gates={"minRequests": 5000}))
    wrong: list[tuple[int, str]] = []
    deadline = time.monotonic() + 10
    while status(governed, "bad")["phase"] not in ("rolling-back", "rolled-back"):
        assert time.monotonic() < deadline, status(governed, "bad")
        wrong += await called(governed, 50)
    followed(governed)
    until(lambda: status(governed, "bad")["phase"] == "rolled-back", 5, "rolled back")
    found = status(governed, "bad")
    assert (found["share"], found["reason"].split(":")[0]) == (0, "errorRate")
    assert {version for code, version in wrong if code != 200} == {"new"}
    assert versions(await called(governed, 60)) == {"old": 60}
    row = governed.api.get("audit").json()["items"][0]
    assert (row["action"], row["target"]) == ("release", "Release/bad")


async def test_a_bad_version_in_the_shadow_is_seen_by_nobody(governed: Governed) -> None:
    """It is asked beside the old one, whole and streamed, and taken back before its first step.

    Callers notice nothing, and each of their calls counts once.
    """
    before = await all_counted(governed, "openai_request_total")
    apply(governed, release("dark", shadow=1.0, steps=[20, 100], gates={"minRequests": 5000}))
    calls, deadline = 0, time.monotonic() + 15
    while status(governed, "dark")["phase"] not in ("rolling-back", "rolled-back"):
        assert time.monotonic() < deadline, status(governed, "dark")
        for stream in (False, True):
            found = await called_by(governed, [{}] * 10, stream=stream)
            assert set(found) == {(200, "old")}
            calls += len(found)
    found_out = status(governed, "dark")
    assert found_out["reason"].startswith("errorRate: "), found_out
    assert {made["share"] for made in found_out["decisions"]} == {0}
    assert found_out["shadow"]["otherStatus"] >= 5
    until(lambda: counted(governed, "openai_request_total") == before + calls, 5, "each call counts once")
    assert counted(governed, "outrigger_release_mirrors_total", outcome="failed") >= 5


async def test_a_good_version_in_the_shadow_goes_on_by_itself(governed: Governed) -> None:
    """With enough calls of which both gave an answer; testers have it before."""
    gates = {"minRequests": 20, "latencyP95": {"maxRatio": 50}, "ttftP95": {"maxRatio": 50}}
    wanted = {"shadow": 0.9, "steps": [50], "bake": "1s", "testers": {"headers": {"x-beta": "1"}}}
    apply(governed, release("light", to="twin", gates=gates, **wanted))
    assert versions(await called(governed, 5, **{"x-beta": "1"})) == {"twin": 5}
    deadline = time.monotonic() + 20
    while status(governed, "light")["step"] == 0:
        assert time.monotonic() < deadline, status(governed, "light")
        # The share may grow before its status has been asked for.
        assert {code for code, _ in await called(governed, 10)} == {200}
    found = status(governed, "light")
    assert (found["share"], found["shadow"]["compared"] >= 20) == (50, True)
    assert found["shadow"]["agreement"] > 0
    governed.api.post("releases/light/abort").raise_for_status()
    followed(governed)
    assert versions(await called(governed, 5, **{"x-beta": "1"})) == {"old": 5}


async def test_a_setting_is_released_as_a_version_is(governed: Governed) -> None:
    """Only who is on the version that has it gets it; its route is there with it."""
    apply(governed, release("setting", to="capped", model="set", steps=[50, 100]))
    async with httpx.AsyncClient(base_url=governed.mesh.url, timeout=30, verify=PLAIN) as client:
        body = {"model": "set", **HELLO, "max_tokens": 40}
        answers = await asyncio.gather(*(client.post("chat/completions", json=body) for _ in range(30)))
    clamped = {
        (answer.status_code, answer.headers["x-outrigger-version"], answer.headers.get("x-outrigger-clamped"))
        for answer in answers
    }
    assert clamped == {(200, "old", None), (200, "capped", "max_tokens")}
    query = {"model": "set", "version": "capped"}
    fields = governed.api.get("explain", params=query).json()["fields"]
    found = {one["field"]: (one["value"], one["policy"]) for one in fields}
    assert found["retry.attempts"] == (2, "version capped")
    assert found["retry.budget"] == (0.2, None)


async def test_a_fallback_does_not_hide_a_bad_version(governed: Governed) -> None:
    """Its callers get an answer, and it goes back all the same."""
    apply(governed, release("spared", model="spared", steps=[50], gates={"minRequests": 5000}))
    deadline = time.monotonic() + 10
    while status(governed, "spared")["phase"] not in ("rolling-back", "rolled-back"):
        assert time.monotonic() < deadline, status(governed, "spared")
        assert {code for code, _ in await called(governed, 50, "spared")} == {200}
    assert status(governed, "spared")["reason"].startswith("errorRate")


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
async def test_a_version_that_refuses_goes_back(governed: Governed, rude: RudeProvider, stream: bool) -> None:
    """Although every answer is a success, read whole or as a stream that passes as it is."""

    def answer(seen: Seen) -> list[Piece]:
        asked = json.loads(seen.body)
        reason = "content_filter" if asked["model"] == "new" else "stop"
        if not stream:
            choice = {"index": 0, "message": {"role": "assistant", "content": "H"}, "finish_reason": reason}
            return [reply(body={**completion(), "choices": [choice]})]
        return stream_reply([event(delta("H")), event(delta(finish=reason)), b"data: [DONE]\n\n"])

    script = rude.script(f"refuses-{stream}", answer)
    gates = {"minRequests": 5000, "refusalRate": {"maxIncrease": 0.02}}
    apply(governed, release("talks", model="talker", steps=[50], gates=gates))
    deadline = time.monotonic() + 20
    while status(governed, "talks")["phase"] not in ("rolling-back", "rolled-back"):
        assert time.monotonic() < deadline, status(governed, "talks")
        found = await called_by(governed, [script] * 40, "talker", stream=stream)
        assert {code for code, _ in found} == {200}
    assert status(governed, "talks")["reason"].startswith("refusalRate: 1 on the new version, 0 on the old")


async def test_a_good_version_goes_on_by_itself(governed: Governed) -> None:
    """With its bake over and enough requests."""
    gates = {"minRequests": 20, "latencyP95": {"maxRatio": 50}, "ttftP95": {"maxRatio": 50}}
    apply(governed, release("good", to="twin", steps=[50, 100], bake="1s", gates=gates))
    deadline = time.monotonic() + 20
    while status(governed, "good")["phase"] != "done":
        assert time.monotonic() < deadline, status(governed, "good")
        assert {code for code, _ in await called(governed, 20)} == {200}
    assert versions(await called(governed, 20)) == {"twin": 20}


async def test_a_dead_control_plane_loses_no_release(governed: Governed) -> None:
    """Killed in the middle of one: callers notice nothing, and it goes on where it was."""
    apply(governed, release("kept", steps=[20, 100], gates={"minRequests": 5000}))
    governed.api.post("releases/kept/pause").raise_for_status()
    followed(governed)
    before = status(governed, "kept")
    governed.mesh.kill("control-plane")
    shares = versions(await called(governed, 200))
    assert 15 <= shares["new"] <= 75
    until(lambda: http_status(f"{governed.server}/readyz") == 200, 20, "the control plane is back")
    after = status(governed, "kept")
    assert (after["phase"], after["share"], after["decisions"]) == ("paused", 20, before["decisions"])
    governed.api.post("releases/kept/abort").raise_for_status()
    followed(governed)
    assert versions(await called(governed, 60)) == {"old": 60}
