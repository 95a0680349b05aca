"""Letting Envoy's requests in flight finish before it is stopped.

Tried on Envoy 1.40: `POST /drain_listeners` closes the listening sockets at once and cuts nothing;
`/healthcheck/fail` makes Envoy close each kept-alive connection after its next answer.
https://www.envoyproxy.io/docs/envoy/latest/operations/admin
"""

from __future__ import annotations

import asyncio
from typing import Final

from control_plane.cli.launcher.local import LocalCallError, call

POLL_S: Final = 0.1
CALL_TIMEOUT_S: Final = 1.0


async def drain_envoy(admin_url: str, limit_s: float) -> bool:
    """Refuse new connections and wait until no request is in flight, at most `limit_s` seconds.

    Returns whether Envoy is idle; False also when its admin does not answer.
    """
    try:
        async with asyncio.timeout(limit_s):
            for path in ("/healthcheck/fail", "/drain_listeners"):
                await _ask("POST", admin_url + path)
            while await _active(admin_url):  # noqa: ASYNC110 - Envoy tells when asked only
                await asyncio.sleep(POLL_S)
            return True
    except (TimeoutError, LocalCallError, ValueError):
        return False


async def _ask(method: str, url: str) -> str:
    answer = await call(method, url, CALL_TIMEOUT_S)
    if answer.status != 200:
        raise LocalCallError(f"{method} {url}: {answer.status}")
    return answer.body.decode()


async def _active(admin_url: str) -> int:
    text = await _ask("GET", f"{admin_url}/stats?filter=downstream_rq_active$")
    pairs = (line.rsplit(":", 1) for line in text.splitlines() if ":" in line)
    # This very call is one of the admin's.
    return sum(int(value) for name, value in pairs if not name.startswith("http.admin."))
