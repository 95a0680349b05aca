"""The fleet, the push stream, a real agent and the real Envoy together."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime

import grpc
import httpx
import pytest
import structlog

from control_plane.push.fleet import Fleet
from control_plane.push.policy import Policy
from control_plane.push.server import PushServer
from control_plane.push.views import EnvoyState, SidecarView
from ext_proc.contract import push_pb2, push_pb2_grpc
from ext_proc.contract.routes import CallShape, RouteTerms, route_id
from ext_proc.contract.snapshot import Backend, CredentialRef, Snapshot, Timeouts, content_version
from tests.contract.ext_proc.agent.sidecar import Sidecar, until
from tests.harness.raw_http import post
from tests.harness.rude import RudeProvider, reply


class Led(Sidecar):
    """A sidecar that follows a real fleet."""

    def __init__(self) -> None:
        super().__init__()
        self.halted: list[tuple[int, str]] = []
        self.fleet = Fleet(
            clock=time.monotonic,
            now=lambda: datetime.now(UTC),
            later=asyncio.get_running_loop().call_later,
            on_halt=lambda revision, reason: self.halted.append((revision, reason)),
            mark=os.urandom(8),
            log=structlog.get_logger(),
        )
        self._server: PushServer | None = None

    async def start_control_plane(self) -> None:
        """Serve the fleet's push stream."""
        self._server = PushServer(self.fleet, f"unix:{self.run_dir.path}/push.sock", structlog.get_logger())
        await self._server.start()

    async def stop_control_plane(self) -> None:
        """End it."""
        if self._server is not None:
            await self._server.stop()

    @property
    def view(self) -> SidecarView:
        """What the fleet shows of it."""
        (found,) = self.fleet.sidecars()
        return found

    async def publish(
        self, revision: int, *backends: Backend, secrets: Mapping[tuple[str, str], bytes] | None = None
    ) -> None:
        """Publish a policy with these Backends, the first the default one."""

        def compile_for(workload: str) -> Snapshot:
            blank = Snapshot(
                "",
                revision,
                workload,
                default_backend=backends[0].name,
                backends={backend.name: backend for backend in backends},
            )
            return replace(blank, version=content_version(blank))

        self.fleet.publish(Policy(revision, compile_for, secrets or {}))

    async def follows(self, revision: int) -> None:
        """Wait until `revision` is in force."""

        def there() -> bool:
            return bool(
                self.fleet.sidecars()
                and self.view.in_force
                and self.view.acknowledged.startswith(f"r{revision}-")
            )

        await until(there, f"revision {revision} is in force")


@pytest.fixture
def provider() -> Iterator[RudeProvider]:
    """Serve a provider that answers as told."""
    with RudeProvider() as running:
        yield running


@pytest.fixture
async def sidecar() -> AsyncIterator[Led]:
    """Run a sidecar that follows a fleet."""
    async with Led() as running:
        yield running


def to(backend: Backend) -> dict[str, str]:
    """Return the header that sends a request there."""
    return {"x-test-route": route_id(backend, RouteTerms(), CallShape.JSON)}


async def test_what_envoy_refuses_halts_the_revision(sidecar: Led, provider: RudeProvider) -> None:
    """The reason is Envoy's, the one before serves on, and the corrected one is in force within a second."""
    good = Backend("main", provider.url)
    bad = Backend("bad", "http://127.0.0.1:1/v1", timeouts=Timeouts(connect_ms=0))
    await sidecar.publish(1, good)
    await sidecar.follows(1)
    await sidecar.ready()
    await sidecar.publish(2, good, bad)
    await until(lambda: sidecar.halted, "the revision is halted")
    assert [revision for revision, _ in sidecar.halted] == [2]
    assert sidecar.view.nack == sidecar.halted[0][1]
    assert "connect" in sidecar.view.nack.lower()
    assert sidecar.view.acknowledged.startswith("r1-")
    assert (await post(sidecar.proxy_port, {}, to(good))).status == 200
    began = time.monotonic()
    fixed = replace(bad, url=provider.url, timeouts=Timeouts())
    await sidecar.publish(3, good, fixed)
    await sidecar.follows(3)
    assert time.monotonic() - began < 1.0
    assert sidecar.view.nack is None
    assert (await post(sidecar.proxy_port, {}, to(fixed))).status == 200


async def test_what_a_processor_refuses_halts_the_revision(sidecar: Led, provider: RudeProvider) -> None:
    """Envoy took it; it is taken back, the processors get the one before, and the disk never held it."""
    good = Backend("main", provider.url)
    await sidecar.publish(1, good)
    await sidecar.follows(1)
    await sidecar.ready()
    async with grpc.aio.insecure_channel(f"unix:{sidecar.run_dir.agent_socket}") as channel:
        stream = push_pb2_grpc.PolicyPushStub(channel).Connect()  # type: ignore[no-untyped-call]
        await stream.write(push_pb2.Report(hello=push_pb2.Hello(subscriber_id="processor-9")))
        first = await stream.read()
        await stream.write(push_pb2.Report(ack=push_pb2.Ack(version=first.version)))
        await sidecar.publish(2, good, Backend("more", provider.url))
        second = await stream.read()
        await stream.write(push_pb2.Report(nack=push_pb2.Nack(version=second.version, reason="not mine")))
        assert (await stream.read()).version == first.version
        await until(lambda: sidecar.halted, "the revision is halted")
        assert sidecar.halted == [(2, "processor-9: not mine")]
        stream.cancel()
    assert b'"more"' not in (sidecar.folder / "data" / "snapshot.json").read_bytes()
    assert (await post(sidecar.proxy_port, {}, to(good))).status == 200


async def test_a_stored_key_reaches_the_provider_and_nothing_else(
    sidecar: Led, provider: RudeProvider
) -> None:
    """It is renewed without a change of the policy; it is not on disk and not in Envoy's config dump."""
    backend = Backend("main", provider.url, credential=CredentialRef("secret", "openai", "key"))

    async def shown(key: str) -> bool:
        name = f"asks-{time.monotonic_ns()}"
        await post(sidecar.proxy_port, {}, {**to(backend), **provider.script(name, reply())})
        return provider.seen(name)[-1].get("authorization") == f"Bearer {key}"

    for revision, key in ((1, "sk-stored-one"), (2, "sk-stored-two")):
        await sidecar.publish(revision, backend, secrets={("openai", "key"): key.encode()})
        await sidecar.follows(revision)
        await sidecar.ready()
        async with asyncio.timeout(5):
            while not await shown(key):  # noqa: ASYNC110 - each look is a call
                await asyncio.sleep(0.02)
        async with httpx.AsyncClient(trust_env=False) as client:
            dump = await client.get(f"http://127.0.0.1:{sidecar.admin_port}/config_dump?include_eds")
        assert "sk-stored" not in dump.text
        files = [path for path in sidecar.folder.rglob("*") if path.is_file()]
        assert not any(b"sk-stored" in path.read_bytes() for path in files)


async def test_envoys_state_is_shown(sidecar: Led, provider: RudeProvider) -> None:
    """Live with its version, dead when it is gone."""
    await sidecar.publish(1, Backend("main", provider.url))

    def state(wanted: EnvoyState) -> Callable[[], bool]:
        return lambda: bool(sidecar.fleet.sidecars()) and sidecar.view.envoy is wanted

    await until(state(EnvoyState.LIVE), "Envoy is live")
    assert sidecar.view.envoy_version.count(".") == 2
    assert sidecar.envoy is not None
    sidecar.envoy.kill()
    sidecar.envoy.wait()
    await until(state(EnvoyState.DEAD), "Envoy is shown as dead")


async def test_a_control_plane_that_comes_back_sends_nothing_again(
    sidecar: Led, provider: RudeProvider
) -> None:
    """The sidecar says what it holds, keeps it, and is shown as up to date at once."""
    await sidecar.publish(1, Backend("main", provider.url))
    await sidecar.follows(1)
    await sidecar.ready()
    await sidecar.stop_control_plane()
    await until(lambda: not sidecar.view.connected, "the stream is broken")
    await sidecar.start_control_plane()
    await until(lambda: sidecar.view.connected, "the stream is there again")
    await sidecar.follows(1)
    assert (await post(sidecar.proxy_port, {}, {})).status == 200
