"""What the agent asks Envoy's admin interface: whether clusters are still warming, and processors in use.

Envoy acknowledges a cluster before it can be used; until its addresses and secrets are there, requests to it
are refused. Likewise no processor is asked before Envoy's own health check has found it.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable

import httpx

from ext_proc.settings import Address

WARMING = "cluster_manager.warming_clusters"
PROCESSORS = "cluster.outrigger_processor.membership_healthy"


class EnvoyAdmin:
    """A client of the local Envoy's admin interface."""

    def __init__(self, address: Address, poll_s: float = 0.02) -> None:
        self._url = f"http://{address}/stats"
        self._poll_s = poll_s
        self._client = httpx.AsyncClient(timeout=1.0, trust_env=False)

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

    async def close(self) -> None:
        """Close the client's connections."""
        await self._client.aclose()
