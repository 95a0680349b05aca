"""What the provider keeps of what it saw."""

from __future__ import annotations

import asyncio
import hashlib

from control_plane.tools.provider.observations import Observations
from tests.unit.control_plane.tools.provider.clocks import JumpingClock
from tests.unit.control_plane.tools.provider.requests import request


def made(log_size: int = 10, body_bytes: int = 0) -> Observations:
    """Return empty observations."""
    return Observations(JumpingClock(), log_size, body_bytes)


def test_credentials_are_digests() -> None:
    """Keys and cookies are kept as digests that tell them apart; other headers as they came."""
    observations = made()
    headers = (("authorization", "Bearer sk-secret"), ("api-key", "k"), ("x-plain", "v"))
    seen = observations.begin(request(headers=headers), "m", stream=False)
    digest = hashlib.sha256(b"Bearer sk-secret").hexdigest()[:12]
    assert seen.headers[0] == ("authorization", f"sha256:{digest}")
    assert seen.headers[2] == ("x-plain", "v")
    assert "sk-secret" not in str(observations.as_json())


def test_log_is_bounded() -> None:
    """Only the last requests are kept; counters go on."""
    observations = made(log_size=2)
    for _ in range(5):
        observations.end(observations.begin(request(), "m", stream=False), 200, aborted=False)
    told = observations.as_json()
    assert (len(told["log"]), told["requests"]["/v1/chat/completions"]) == (2, 5)


def test_bodies_on_request() -> None:
    """Bodies are kept as far as asked for, with the digest of the whole."""
    seen = made(body_bytes=3).begin(request(body=b"abcdef"), None, stream=False)
    assert (seen.body, seen.body_bytes) == ("abc", 6)
    assert seen.body_sha256 == hashlib.sha256(b"abcdef").hexdigest()
    assert made().begin(request(body=b"abcdef"), None, stream=False).body is None


def test_connections() -> None:
    """Connections are counted when opened and now; those that only observe are nobody's."""
    observations = made()
    caller, observer = (observations.connected(f"c:{number}", tls=False) for number in range(2))
    observations.observed_by(observer.id)
    told = observations.as_json()["connections"]
    assert (told["opened"], told["now"]) == (2 - 1, 1)
    observations.disconnected(caller)
    told = observations.as_json()["connections"]
    assert (told["opened"], told["now"]) == (1, 0)
    observations.begin(request(connection=observer.id), None, stream=False)
    assert observations.as_json()["connections"]["opened"] == 2


def test_reset_keeps_open_connections() -> None:
    """After a reset the open connections are known, and everything else is forgotten."""
    observations = made()
    observations.connected("c:1", tls=True)
    observations.end(observations.begin(request(), None, stream=False), 0, aborted=True)
    observations.handshake_failed()
    observations.reset()
    told = observations.as_json()
    assert (told["requests"], told["log"], told["aborted"], told["connections"]["tls_failures"]) == (
        {},
        [],
        0,
        0,
    )
    assert (told["connections"]["opened"], told["connections"]["now"]) == (1, 1)


async def test_until() -> None:
    """Whoever waits for an observation is woken by it, and at once if it holds already."""
    observations = made()
    waiting = asyncio.create_task(observations.until(lambda now: now.aborted == 1))
    await asyncio.sleep(0)
    observations.end(observations.begin(request(), None, stream=False), 0, aborted=True)
    async with asyncio.timeout(1):
        await waiting
        await observations.until(lambda now: now.aborted == 1)
