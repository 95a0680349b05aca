"""Letting Envoy's requests in flight finish before it is stopped.

Tried on Envoy 1.40: `POST /drain_listeners` closes the listening sockets at once and cuts nothing;
`/healthcheck/fail` makes Envoy close each kept-alive connection after its next answer.
https://www.envoyproxy.io/docs/envoy/latest/operations/admin
"""

from __future__ import annotations

import asyncio
from typing import Final

import httpx

POLL_S: Final = 0.1
CALL_TIMEOUT_S: Final = 1.0


def local_client(timeout_s: float) -> httpx.AsyncClient:
    """Return a client for processes on this machine: a proxy that the environment names is not for them.

    It speaks plain HTTP only: reading the machine's authorities would take 50 ms.
    """
    return httpx.AsyncClient(timeout=timeout_s, trust_env=False, verify=False)


async def drain_envoy(admin_url: str, limit_s: float) -> bool:
    """Refuse new connections and wait until no request is in flight, at most `limit_s` seconds.

    Returns whether Envoy is idle; False also when its admin does not answer.
    """
    try:
        async with asyncio.timeout(limit_s), local_client(CALL_TIMEOUT_S) as client:
            for path in ("/healthcheck/fail", "/drain_listeners"):
                (await client.post(admin_url + path)).raise_for_status()
            while await _active(client, admin_url):  # noqa: ASYNC110 - Envoy tells when asked only
                await asyncio.sleep(POLL_S)
            return True
    except (TimeoutError, httpx.HTTPError, ValueError):
        return False


async def _active(client: httpx.AsyncClient, admin_url: str) -> int:
    answer = await client.get(f"{admin_url}/stats?filter=downstream_rq_active$")
    answer.raise_for_status()
    pairs = (line.rsplit(":", 1) for line in answer.text.splitlines() if ":" in line)
    # This very call is one of the admin's.
    return sum(int(value) for name, value in pairs if not name.startswith("http.admin."))
