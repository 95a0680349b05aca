"""How policy changes over from one snapshot to another, with the real Envoy, agent and push streams."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import grpc
import pytest

from ext_proc.agent.rollout import DECISIONS_ARRIVE_S
from ext_proc.contract import push_pb2, push_pb2_grpc
from ext_proc.contract.routes import CallShape, RouteTerms, route_id
from ext_proc.contract.snapshot import Backend, PolicyLayer, Snapshot, Timeouts, decode
from tests.contract.ext_proc.agent.sidecar import Sidecar, until
from tests.harness.raw_http import post
from tests.harness.rude import Act, RudeProvider, reply


@pytest.fixture
def provider() -> Iterator[RudeProvider]:
    """Serve a provider that answers as told."""
    with RudeProvider() as running:
        yield running


@pytest.fixture
def folder() -> Iterator[Path]:
    """Make a folder with a path short enough for sockets."""
    path = Path(tempfile.mkdtemp(prefix="or-"))
    yield path
    shutil.rmtree(path)


def snapshot(version: str, *backends: Backend, layers: tuple[PolicyLayer, ...] = ()) -> Snapshot:
    """Return a snapshot whose first Backend, if any, is the default one."""
    return Snapshot(
        version=version,
        default_backend=backends[0].name if backends else None,
        backends={backend.name: backend for backend in backends},
        policies=layers,
    )


def to(backend: Backend) -> dict[str, str]:
    """Return the header that sends a request there."""
    return {"x-test-route": route_id(backend, RouteTerms(), CallShape.JSON)}


@dataclass(slots=True)
class Processor:
    """A processor's end of the push stream, worked by hand."""

    stream: grpc.aio.StreamStreamCall

    async def take(self) -> Snapshot:
        """Return the next snapshot that is pushed."""
        async with asyncio.timeout(5):
            return decode((await self.stream.read()).content)

    async def acknowledge(self, version: str, oldest: str) -> None:
        """Say what is in force and what is still in use."""
        ack = push_pb2.Ack(version=version, oldest_in_use=oldest)
        await self.stream.write(push_pb2.Report(ack=ack))


@asynccontextmanager
async def processor(sidecar: Sidecar) -> AsyncIterator[Processor]:
    """Connect to the agent as a processor."""
    async with grpc.aio.insecure_channel(f"unix:{sidecar.run_dir.agent_socket}") as channel:
        stream = push_pb2_grpc.PolicyPushStub(channel).Connect()  # type: ignore[no-untyped-call]
        await stream.write(push_pb2.Report(hello=push_pb2.Hello(subscriber_id="by-hand")))
        yield Processor(stream)
        stream.cancel()


async def test_empty_policy_makes_envoy_ready() -> None:
    """A sidecar without any Backend becomes ready; calls are 503, and Backends that come later serve."""
    async with Sidecar() as sidecar:
        await sidecar.push(snapshot("1"))
        await sidecar.ready()
        answer = await post(sidecar.proxy_port, {})
        assert (answer.status, answer.get("x-outrigger-error")) == (503, "no-backend")


async def gone(sidecar: Sidecar, backend: Backend) -> None:
    """Wait until Envoy has no route to `backend`: a little after the last processor let go of it."""
    async with asyncio.timeout(DECISIONS_ARRIVE_S + 2):
        while (await post(sidecar.proxy_port, {}, to(backend))).status != 503:  # noqa: ASYNC110
            await asyncio.sleep(0.02)


async def test_change_is_in_force_within_a_second(provider: RudeProvider) -> None:
    """A Backend made, changed and deleted five times is in force each time within a second."""
    async with Sidecar() as sidecar:
        await sidecar.push(snapshot("0", Backend("main", provider.url)))
        await sidecar.ready()
        for number in range(1, 6):
            script = provider.script(f"s{number}", reply())
            extra = Backend("extra", f"http://127.0.0.1:{provider.port}/v{number}")
            started = time.monotonic()
            await sidecar.push(snapshot(f"{number}", Backend("main", provider.url), extra))
            assert time.monotonic() - started < 1.0
            assert (await post(sidecar.proxy_port, {}, {**to(extra), **script})).status == 200
            assert provider.seen(f"s{number}")[-1].target == f"/v{number}/chat/completions"
            started = time.monotonic()
            await sidecar.push(snapshot(f"{number}-without", Backend("main", provider.url)))
            assert time.monotonic() - started < 1.0
            await gone(sidecar, extra)


async def test_old_routes_stay_while_a_processor_decides_by_them(provider: RudeProvider) -> None:
    """The old snapshot's routes go only when the processor says that nothing holds it."""
    old, new = (
        Backend("main", provider.url),
        Backend("main", provider.url, timeouts=Timeouts(request_ms=9_000)),
    )
    async with Sidecar() as sidecar:
        await sidecar.push(snapshot("1", old))
        await sidecar.ready()
        async with processor(sidecar) as by_hand:
            assert (await by_hand.take()).version == "1"
            await by_hand.acknowledge("1", "1")
            await sidecar.control_plane.push(snapshot("2", new))
            assert (await by_hand.take()).version == "2"
            # Envoy is ahead of the processor: both are routable before it has switched.
            assert (await post(sidecar.proxy_port, {}, to(new))).status == 200
            assert (await post(sidecar.proxy_port, {}, to(old))).status == 200
            assert not [report for report in sidecar.control_plane.reports if report.ack.version == "2"]
            await by_hand.acknowledge("2", "1")
            assert (await sidecar.control_plane.told("ack", "2")).oldest_in_use == "1"
            assert (await post(sidecar.proxy_port, {}, to(old))).status == 200
            await by_hand.acknowledge("2", "2")
            async with asyncio.timeout(3):
                while True:
                    if (await post(sidecar.proxy_port, {}, to(old))).status == 503:
                        break
            assert (await post(sidecar.proxy_port, {}, to(new))).status == 200
            assert (await sidecar.control_plane.told("ack", "2")).oldest_in_use == "2"


async def test_stream_outlives_the_removal_of_its_backend(provider: RudeProvider) -> None:
    """A call under way ends well although its Backend, route and cluster are gone by then."""
    backend, other = Backend("main", provider.url), Backend("other", provider.url)
    script = provider.script("held", [Act.HOLD, reply()])
    async with Sidecar() as sidecar:
        await sidecar.push(snapshot("1", other, backend))
        await sidecar.ready()
        call = asyncio.create_task(post(sidecar.proxy_port, {}, {**to(backend), **script}))
        await until(lambda: provider.seen("held"), "the call with the provider")
        await sidecar.push(snapshot("2", other))
        await gone(sidecar, backend)
        provider.release("held")
        assert (await call).status == 200


async def test_refused_snapshot_leaves_the_old_one_in_force(provider: RudeProvider) -> None:
    """What Envoy refuses is reported with its reason and not tried again; later versions apply."""
    good = Backend("main", provider.url)
    bad = Backend("bad", "http://127.0.0.1:1/v1", timeouts=Timeouts(connect_ms=0))
    async with Sidecar() as sidecar:
        await sidecar.push(snapshot("1", good))
        await sidecar.ready()
        for _ in range(2):
            await sidecar.control_plane.push(snapshot("2", good, bad))
            nack = await sidecar.control_plane.told("nack", "2")
            assert "connect_timeout" in nack.reason.lower() or "ConnectTimeout" in nack.reason
        rejected = await sidecar.stat("cluster_manager.cds.update_rejected")
        assert rejected == 1
        assert (await post(sidecar.proxy_port, {}, to(good))).status == 200
        later = Backend("later", provider.url)
        await sidecar.push(snapshot("3", good, later))
        assert (await post(sidecar.proxy_port, {}, to(later))).status == 200
        kept = decode((sidecar.folder / "data" / "snapshot.json").read_bytes())
        assert kept.version == "3"


async def test_unusable_url_is_refused_with_its_backend_named(provider: RudeProvider) -> None:
    """A Backend that cannot be rendered is refused before Envoy sees it; corrected, it works at once."""
    good = Backend("main", provider.url)
    async with Sidecar() as sidecar:
        await sidecar.push(snapshot("1", good))
        await sidecar.ready()
        await sidecar.control_plane.push(snapshot("2", good, Backend("odd", "http://127.0.0.1:70000/v1")))
        assert "odd" in (await sidecar.control_plane.told("nack", "2")).reason
        fixed = Backend("odd", provider.url)
        await sidecar.push(snapshot("3", good, fixed))
        assert (await post(sidecar.proxy_port, {}, to(fixed))).status == 200


async def test_newest_of_many_snapshots_wins(provider: RudeProvider) -> None:
    """Of snapshots pushed faster than they can be brought into force the newest is in force in the end."""
    good = Backend("main", provider.url)
    async with Sidecar() as sidecar:
        await sidecar.push(snapshot("0", good))
        await sidecar.ready()
        for number in range(1, 31):
            changed = replace(good, timeouts=Timeouts(request_ms=1_000 + number))
            await sidecar.control_plane.push(snapshot(str(number), changed))
        await sidecar.control_plane.told("ack", "30")
        assert (await post(sidecar.proxy_port, {}, to(changed))).status == 200


async def test_name_that_does_not_resolve_holds_up_nothing_else(provider: RudeProvider) -> None:
    """A Backend with a host name that nobody knows does not keep the others from changing."""
    good, lost = Backend("main", provider.url), Backend("lost", "https://no-such-host.invalid/v1")
    async with Sidecar() as sidecar:
        await sidecar.push(snapshot("1", good, lost))
        await sidecar.ready()
        await sidecar.push(snapshot("2", replace(good, timeouts=Timeouts(request_ms=7_000)), lost))
        answer = await post(sidecar.proxy_port, {}, to(lost))
        assert answer.status == 503
        assert answer.error()


async def test_cold_start_without_control_plane(provider: RudeProvider, folder: Path) -> None:
    """With the snapshot on disk and no control plane, a new sidecar serves all of its policy."""
    backend = Backend("main", provider.url)
    async with Sidecar(folder=folder) as sidecar:
        await sidecar.push(snapshot("1", backend))
    async with Sidecar(folder=folder) as sidecar:
        await sidecar.stop_control_plane()
        await sidecar.ready()
        assert (await post(sidecar.proxy_port, {}, to(backend))).status == 200
        async with processor(sidecar) as by_hand:
            assert (await by_hand.take()).version == "1"


async def test_restarts_change_nothing(provider: RudeProvider) -> None:
    """Envoy, agent and control plane may each be restarted; traffic goes on, later policy applies."""
    backend, later = Backend("main", provider.url), Backend("later", provider.url)
    async with Sidecar() as sidecar:
        await sidecar.push(snapshot("1", backend))
        await sidecar.ready()
        assert sidecar.envoy is not None
        sidecar.envoy.kill()
        sidecar.envoy.wait()
        sidecar.start_envoy()
        await sidecar.ready()
        assert (await post(sidecar.proxy_port, {}, to(backend))).status == 200
        await sidecar.stop_agent()
        assert (await post(sidecar.proxy_port, {}, to(backend))).status == 200
        sidecar.start_agent()
        await sidecar.push(snapshot("2", backend, later))
        assert (await post(sidecar.proxy_port, {}, to(later))).status == 200
        await sidecar.stop_control_plane()
        assert (await post(sidecar.proxy_port, {}, to(later))).status == 200
        (sidecar.run_dir.path / "push.sock").unlink(missing_ok=True)
        await sidecar.start_control_plane()
        await sidecar.push(snapshot("3", later))
        assert sidecar.control_plane.hellos[-1].in_force == "2"
        await gone(sidecar, backend)
