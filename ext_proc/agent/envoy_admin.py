"""What the agent asks Envoy's admin interface: how it is, whether clusters are warming, processors in use.

Envoy acknowledges a cluster before it can be used; until its addresses and secrets are there, requests to it
are refused. Likewise no processor is asked before Envoy's own health check has found it.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from typing import Final

import httpx

from ext_proc.contract import push_pb2
from ext_proc.settings import Address

WARMING = "cluster_manager.warming_clusters"
# https://www.envoyproxy.io/docs/envoy/latest/api-v3/admin/v3/server_info.proto
STATES: Final = {
    "LIVE": push_pb2.Envoy.LIVE,
    "DRAINING": push_pb2.Envoy.DRAINING,
    "PRE_INITIALIZING": push_pb2.Envoy.WARMING,
    "INITIALIZING": push_pb2.Envoy.WARMING,
}
PROCESSORS = "cluster.outrigger_processor.membership_healthy"


class EnvoyAdmin:
    """A client of the local Envoy's admin interface."""

    def __init__(self, address: Address, poll_s: float = 0.02) -> None:
        self._url = f"http://{address}/stats"
        self._ready_url = f"http://{address}/ready"
        self._info_url = f"http://{address}/server_info"
        # Of the Envoy that is there now: what it said last, and its version, "" when that is not known.
        self._said = ""
        self._version = ""
        self._poll_s = poll_s
        # Plain HTTP: reading the machine's authorities would take 50 ms.
        self._client = httpx.AsyncClient(timeout=1.0, trust_env=False, verify=False)

    async def warmed(self, limit_s: float) -> bool:
        """Wait until no cluster is warming; return False when `limit_s` seconds were not enough.

        An address that cannot be resolved keeps its cluster warming for long, so the wait has a limit.
        """
        return await self._until(WARMING, lambda value: value == 0, limit_s)

    async def asks_a_processor(self, limit_s: float) -> bool:
        """Wait until Envoy has found a processor healthy; return False when `limit_s` seconds are over."""
        return await self._until(PROCESSORS, lambda value: value > 0, limit_s)

    async def _until(self, gauge: str, holds: Callable[[int], bool], limit_s: float) -> bool:
        try:
            async with asyncio.timeout(limit_s):
                while True:
                    value = await self._read(gauge)
                    if value is not None and holds(value):
                        return True
                    await asyncio.sleep(self._poll_s)
        except TimeoutError:
            return False

    async def _read(self, gauge: str) -> int | None:
        try:
            answer = await self._client.get(self._url, params={"filter": f"^{re.escape(gauge)}$"})
        except httpx.HTTPError:
            return None
        name, _, value = answer.text.strip().partition(": ")
        return int(value) if answer.status_code == 200 and name == gauge and value.isdigit() else None

    async def state(self) -> push_pb2.Envoy:
        """Return how Envoy is now, and its version; one that does not answer is dead."""
        try:
            # Asked each second: all that Envoy tells of itself was a sixth of what an idle sidecar cost.
            state = (await self._client.get(self._ready_url)).text.strip()
            if state != self._said or not self._version:
                # Another one may have come, of another version.
                self._version = await self._read_version()
            self._said = state
        except (httpx.HTTPError, ValueError):
            self._version = ""
            return push_pb2.Envoy(state=push_pb2.Envoy.DEAD)
        return push_pb2.Envoy(state=STATES.get(state, push_pb2.Envoy.UNKNOWN), version=self._version)

    async def _read_version(self) -> str:
        info = (await self._client.get(self._info_url)).json()
        # Such as `<commit>/1.35.0/Clean/RELEASE/BoringSSL`.
        version = str(info.get("version", "")).split("/")
        return version[1] if len(version) > 1 else ""

    async def close(self) -> None:
        """Close the client's connections."""
        await self._client.aclose()
