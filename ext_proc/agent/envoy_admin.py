"""What the agent asks Envoy's admin interface: whether clusters are still warming.

Envoy acknowledges a cluster before it can be used; until its addresses and secrets are there, requests to it
are refused.
"""

from __future__ import annotations

import asyncio

import httpx

from ext_proc.settings import Address

GAUGE = "cluster_manager.warming_clusters"


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
        try:
            async with asyncio.timeout(limit_s):
                while True:
                    if await self._none_warming():
                        return True
                    await asyncio.sleep(self._poll_s)
        except TimeoutError:
            return False

    async def _none_warming(self) -> bool:
        try:
            answer = await self._client.get(self._url, params={"filter": f"^{GAUGE}$"})
        except httpx.HTTPError:
            return False
        return answer.status_code == 200 and answer.text.strip() == f"{GAUGE}: 0"

    async def close(self) -> None:
        """Close the client's connections."""
        await self._client.aclose()
