"""Connections, observed at the provider: reuse, limits, preconnect, ejection, HTTP/2 over TLS."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import ssl
import subprocess
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import trustme

from tests.e2e.governed import lent
from tests.harness.mesh import OUTRIGGER, Mesh
from tests.harness.processes import free_ports, until
from tests.harness.raw_http import connect, json_request, post
from tests.harness.rude import Act, RudeProvider, completion, reply

CHAT = "/v1/chat/completions"
GOOD = {"model": "plain", "messages": [{"role": "user", "content": "hello"}]}
FINE = reply(200, completion())


async def test_eight_callers_share_few_connections(mesh: Mesh, rude: RudeProvider, script: str) -> None:
    """8 callers of 25 calls each need at most 32 upstream connections between them."""
    headers = list(rude.script(script, [0.01, FINE]).items())

    async def caller() -> None:
        async with await connect(mesh.proxy_port) as connection:
            for _ in range(25):
                await connection.send(json_request(CHAT, GOOD, headers))
                assert (await connection.receive()).status == 200

    async with asyncio.timeout(30):
        await asyncio.gather(*(caller() for _ in range(8)))
    seen = rude.seen(script)
    assert len(seen) == 200
    assert len({one.connection for one in seen}) <= 32


async def test_a_new_caller_finds_a_warm_connection(mesh: Mesh, rude: RudeProvider, script: str) -> None:
    """Callers that come and go reuse what is open upstream."""
    headers = rude.script(script)
    for _ in range(20):
        assert (await post(mesh.proxy_port, GOOD, headers)).status == 200
    assert len({seen.connection for seen in rude.seen(script)}) <= 4


async def test_a_quota_of_concurrency_makes_the_rest_wait(
    mesh: Mesh, rude: RudeProvider, script: str
) -> None:
    """With `quota.concurrency: 2`, twelve calls at once all succeed, never more than two at the provider."""
    headers = rude.script(script, [0.15, FINE])
    document = {**GOOD, "model": "narrow"}
    answers = await asyncio.gather(*(post(mesh.proxy_port, document, headers, seconds=20) for _ in range(12)))
    assert {answer.status for answer in answers} == {200}
    starts = sorted(seen.at for seen in rude.seen(script))
    # With two at a time and 150 ms a call, the third after any call starts no sooner than 150 ms later.
    assert all(later - earlier > 0.13 for earlier, later in zip(starts, starts[2:], strict=False)), starts


PAIR = """\
kind: Backend
metadata: {{name: pair}}
spec: {{url: "http://pair.test:{port}/v1", default: true, timeouts: {{connect: 1s}}}}
---
kind: Model
metadata: {{name: plain}}
spec: {{versions: [{{name: v1, backend: pair}}]}}
---
kind: Policy
metadata: {{name: quick}}
spec: {{retry: {{attempts: 2, base: 20ms, max: 100ms}}}}
"""


@pytest.fixture
def pair_mesh(tmp_path: Path, start_mesh: Callable[..., Mesh]) -> Callable[[int], Mesh]:
    """Start a mesh whose Backend's name has two addresses, 127.0.0.1 and 127.0.0.2.

    The name stands in a hosts file that only this mesh sees, in a mount namespace of its own.
    """
    hosts = tmp_path / "hosts"
    hosts.write_text("127.0.0.1 localhost pair.test\n127.0.0.2 pair.test\n")
    wrapper = ["unshare", "-rm", "sh", "-c", 'mount --bind "$0" /etc/hosts && exec "$@"', str(hosts)]
    probe = subprocess.run([*wrapper, "true"], check=False, capture_output=True, text=True)
    if probe.returncode:
        reason = f"unshare (a mount namespace of one's own): {probe.stderr.strip()}"
        (pytest.fail if os.environ.get("CI") else pytest.skip)(reason)
    return lambda port: start_mesh(PAIR.format(port=port), wrapper=wrapper)


async def test_an_address_that_fails_is_ejected(pair_mesh: Callable[[int], Mesh]) -> None:
    """Of two addresses the one that answers 500 is left alone after a few calls.

    No caller sees a failure: the one other try goes to the other address.
    """
    with RudeProvider() as good, RudeProvider("127.0.0.2", good.port) as bad:
        mesh = pair_mesh(good.port)
        good.script("s", FINE)
        bad.script("s", reply(500, b'{"error": {}}'))
        answers = []
        for _ in range(10):
            calls = (post(mesh.proxy_port, GOOD, {"x-script": "s"}) for _ in range(10))
            answers += await asyncio.gather(*calls)
        assert {answer.status for answer in answers} == {200}
        assert 1 <= len(bad.seen("s")) <= 25
        before = len(bad.seen("s"))
        for _ in range(20):
            await post(mesh.proxy_port, GOOD, {"x-script": "s"})
        assert len(bad.seen("s")) == before


AHEAD = """\
kind: Backend
metadata: {{name: ahead}}
spec: {{url: "http://127.0.0.1:{port}/v1"}}
---
kind: Model
metadata: {{name: ahead}}
spec: {{versions: [{{name: v1, backend: ahead}}]}}
"""


async def test_a_connection_is_opened_ahead(mesh: Mesh) -> None:
    """While one call is held the provider has more connections open than calls: the next finds a warm one."""
    document = {**GOOD, "model": "ahead"}
    with RudeProvider() as provider, lent(mesh, AHEAD.format(port=provider.port)):
        assert provider.opened == 0
        provider.script("held", [Act.HOLD, FINE])
        call = asyncio.create_task(post(mesh.proxy_port, document, {"x-script": "held"}, seconds=20))
        await asyncio.to_thread(until, lambda: provider.seen("held"), 5, "the call is upstream")
        await asyncio.to_thread(until, lambda: provider.opened > 1, 3, "a second connection")
        opened = provider.opened
        assert (await post(mesh.proxy_port, document)).status == 200
        (seen,) = provider.seen()
        assert seen.connection <= opened
        provider.release("held")
        assert (await call).status == 200


TLS = """\
kind: Backend
metadata: {{name: right}}
spec: {{url: "https://localhost:{port}/v1", default: true}}
---
kind: Backend
metadata: {{name: wrong-name}}
spec: {{url: "https://127.0.0.1:{port}/v1"}}
---
kind: Backend
metadata: {{name: old}}
spec: {{url: "https://localhost:{port}/v1", http: "1.1"}}
---
kind: Model
metadata: {{name: plain}}
spec: {{versions: [{{name: v1, backend: right}}]}}
---
kind: Model
metadata: {{name: old}}
spec: {{versions: [{{name: v1, backend: old}}]}}
---
kind: Model
metadata: {{name: wrong-name}}
spec: {{versions: [{{name: v1, backend: wrong-name}}]}}
---
kind: Policy
metadata: {{name: no-retry}}
spec: {{retry: {{attempts: 1}}}}
"""


@pytest.fixture
def tls_provider(tmp_path: Path) -> Iterator[tuple[int, Path]]:
    """A simulated provider with TLS, for `localhost` only: its port and its authority's certificate."""
    authority = trustme.CA()
    certificate = authority.issue_cert("localhost")
    ca_path, cert_path, key_path = (tmp_path / name for name in ("ca.pem", "cert.pem", "key.pem"))
    authority.cert_pem.write_to_path(ca_path)
    key_path.write_bytes(certificate.private_key_pem.bytes())
    cert_path.write_bytes(b"".join(blob.bytes() for blob in certificate.cert_chain_pems))
    port = free_ports(1)[0]
    files = ["--tls-cert", str(cert_path), "--tls-key", str(key_path)]
    process = subprocess.Popen(
        [str(OUTRIGGER), "provider", "--port", str(port), *files],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        until(lambda: process.poll() is not None or _answers(port, ca_path), 20, "the provider listens")
        yield port, ca_path
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(10)


def _answers(port: int, authority: Path) -> bool:
    try:
        return bool(_provider_stats(port, authority))
    except OSError:
        return False


def _provider_stats(port: int, authority: Path) -> dict[str, Any]:
    context = ssl.create_default_context(cafile=str(authority))
    with urllib.request.urlopen(
        f"https://localhost:{port}/_provider/stats", timeout=3, context=context
    ) as answer:
        return dict(json.load(answer))


async def test_tls_is_verified_and_speaks_http_2(
    tls_provider: tuple[int, Path], start_mesh: Callable[..., Mesh]
) -> None:
    """By ALPN many calls share an HTTP/2 connection; `http: "1.1"` keeps to that; a wrong name fails."""
    port, authority = tls_provider
    mesh = start_mesh(
        TLS.format(port=port),
        environment={"OUTRIGGER_CA_FILE": str(authority), "SSL_CERT_FILE": str(authority)},
    )
    answers = await asyncio.gather(*(post(mesh.proxy_port, GOOD) for _ in range(30)))
    assert {answer.status for answer in answers} == {200}
    old = await post(mesh.proxy_port, {**GOOD, "model": "old"})
    assert old.status == 200
    wrong = await post(mesh.proxy_port, {**GOOD, "model": "wrong-name"})
    assert wrong.status in (502, 503)
    wrong.error()
    log = (await asyncio.to_thread(_provider_stats, port, authority))["log"]
    calls = [entry for entry in log if entry["path"].endswith("/chat/completions")]
    assert len(calls) == 31
    versions = {str(entry["http_version"]) for entry in calls[:30]}
    assert versions <= {"2", "2.0"}, versions
    assert len({entry["connection"] for entry in calls[:30]}) <= 4
    assert str(calls[30]["http_version"]) == "1.1"
