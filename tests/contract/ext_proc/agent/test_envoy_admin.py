"""What the agent learns from the real Envoy's admin interface."""

from __future__ import annotations

import re

from ext_proc.agent.envoy_admin import EnvoyAdmin
from ext_proc.contract import push_pb2
from ext_proc.contract.snapshot import Backend, Snapshot
from ext_proc.settings import Address
from tests.contract.ext_proc.agent.sidecar import Sidecar
from tests.harness.processes import free_ports


async def test_state_of_the_real_envoy_is_read() -> None:
    """With its clusters in use and a healthy processor both waits end well."""
    backend = Backend("main", "http://127.0.0.1:1/v1")
    async with Sidecar() as sidecar:
        await sidecar.push(Snapshot("1", backends={"main": backend}))
        await sidecar.ready()
        admin = EnvoyAdmin(Address("127.0.0.1", sidecar.admin_port))
        assert await admin.warmed(5.0)
        assert await admin.asks_a_processor(5.0)
        state = await admin.state()
        assert state.state == push_pb2.Envoy.LIVE
        assert re.fullmatch(r"\d+\.\d+\.\d+.*", state.version)
        await admin.close()


async def test_absent_envoy_is_waited_for_so_long() -> None:
    """Where nobody answers, the wait ends with its limit."""
    (port,) = free_ports(1)
    admin = EnvoyAdmin(Address("127.0.0.1", port))
    assert not await admin.warmed(0.1)
    assert await admin.state() == push_pb2.Envoy(state=push_pb2.Envoy.DEAD)
    await admin.close()
