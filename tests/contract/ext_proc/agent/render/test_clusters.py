"""What a provider sees of the sidecar: connections, tries, time limits, TLS, keys."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trustme
from hypercorn.asyncio import serve
from hypercorn.config import Config

from ext_proc.contract.policies import HoldPolicy, RetryPolicy
from ext_proc.contract.routes import CallShape, RouteTerms, route_id
from ext_proc.contract.snapshot import Backend, CredentialRef, PolicyLayer, Quota, Snapshot, Timeouts
from tests.contract.ext_proc.agent.sidecar import Sidecar, until
from tests.harness.processes import free_ports
from tests.harness.raw_http import Answer, post
from tests.harness.rude import Act, RudeProvider, reply

Scope = dict[str, Any]
KEY = "sk-marker-0001"
DEFAULT = RouteTerms()


@pytest.fixture
def provider() -> Iterator[RudeProvider]:
    """Serve a provider that answers as told."""
    with RudeProvider() as running:
        yield running


def snapshot(*backends: Backend, layers: tuple[PolicyLayer, ...] = ()) -> Snapshot:
    """Return a snapshot whose first Backend is the default one."""
    return Snapshot(
        version="1",
        default_backend=backends[0].name,
        backends={backend.name: backend for backend in backends},
        policies=layers,
    )


@asynccontextmanager
async def serving(snapshot: Snapshot, **options: Any) -> AsyncIterator[Sidecar]:
    """Run a sidecar with `snapshot` in force."""
    async with Sidecar(**options) as sidecar:
        await sidecar.push(snapshot)
        await sidecar.ready()
        yield sidecar


def to(backend: Backend, shape: CallShape = CallShape.JSON, terms: RouteTerms = DEFAULT) -> dict[str, str]:
    """Return the header that sends a request there."""
    return {"x-test-route": route_id(backend, terms, shape)}


QUICK = RouteTerms(RetryPolicy(attempts=3, base_ms=50, max_ms=100), HoldPolicy(3_000))
QUICK_LAYER = PolicyLayer("quick", settings={"retry.base_ms": 50, "retry.max_ms": 100, "hold.max_ms": 3_000})


@pytest.mark.parametrize(
    ("answers", "tries", "status"),
    [
        pytest.param([reply(503), reply(500), reply(200)], 3, 200, id="5xx"),
        pytest.param([reply(429), reply(200)], 2, 200, id="429"),
        pytest.param([[Act.RESET], reply(200)], 2, 200, id="reset"),
        pytest.param([[Act.CLOSE], reply(200)], 2, 200, id="close"),
        pytest.param([reply(503, '"a"'), reply(502, '"b"'), reply(429, '"c"')], 3, 429, id="last-passes"),
        pytest.param([reply(400), reply(200)], 1, 400, id="400-is-final"),
        pytest.param([reply(404), reply(200)], 1, 404, id="404-is-final"),
    ],
)
async def test_tries_follow_the_policy(
    provider: RudeProvider, answers: list[Any], tries: int, status: int
) -> None:
    """`attempts` is the total of tries; the body is the same on each; the last answer passes as it is."""
    backend = Backend("main", provider.url)
    script = provider.script("tries", *answers)
    async with serving(snapshot(backend, layers=(QUICK_LAYER,))) as sidecar:
        answer = await post(sidecar.proxy_port, {"model": "m"}, {**to(backend, terms=QUICK), **script})
    seen = provider.seen("tries")
    assert (answer.status, len(seen)) == (status, tries)
    assert {one.body for one in seen} == {b'{"model": "m"}'}
    if status == 429:
        assert answer.body == b'"c"'


async def test_retry_after_is_waited_for(provider: RudeProvider) -> None:
    """A whole number of seconds in Retry-After is the pause before the next try."""
    backend = Backend("main", provider.url)
    script = provider.script("after", reply(429, "{}", [("retry-after", "1")]), reply(200))
    async with serving(snapshot(backend, layers=(QUICK_LAYER,))) as sidecar:
        answer = await post(sidecar.proxy_port, {}, {**to(backend, terms=QUICK), **script})
    first, second = provider.seen("after")
    assert answer.status == 200
    assert 0.95 < second.at - first.at < 2.2


async def test_raw_paths_are_not_tried_again(provider: RudeProvider) -> None:
    """A call whose body is not held gets the provider's first answer, an error too."""
    backend = Backend("main", provider.url)
    script = provider.script("raw", reply(503), reply(200))
    async with serving(snapshot(backend, layers=(QUICK_LAYER,))) as sidecar:
        headers = {**to(backend, CallShape.RAW, QUICK), **script}
        answer = await post(sidecar.proxy_port, {}, headers, "/v1/responses")
    assert (answer.status, len(provider.seen("raw"))) == (503, 1)


async def test_time_limits_are_told_in_openais_shape(provider: RudeProvider) -> None:
    """A JSON call ends after `timeouts.request` over all tries; a stream's try without a first byte, too."""
    limits = Timeouts(request_ms=400)
    backend = Backend("main", provider.url, timeouts=limits)
    one = RouteTerms(RetryPolicy(attempts=1))
    layer = PolicyLayer("once", settings={"retry.attempts": 1})
    script = provider.script("slow", [5.0, reply(200)])
    async with serving(snapshot(backend, layers=(layer,))) as sidecar:
        for shape in (CallShape.JSON, CallShape.STREAM):
            started = time.monotonic()
            answer = await post(sidecar.proxy_port, {}, {**to(backend, shape, one), **script})
            assert (answer.status, answer.get("x-outrigger-error")) == (504, "upstream-timeout")
            assert answer.error()["type"] == "server_error"
            assert answer.get("x-request-id")
            assert 0.3 < time.monotonic() - started < 1.5


async def test_unreachable_provider_is_told_in_openais_shape() -> None:
    """A refused connection is 502–504 in OpenAI's shape, after the tries."""
    (port,) = free_ports(1)
    backend = Backend("main", f"http://127.0.0.1:{port}/v1")
    async with serving(snapshot(backend, layers=(QUICK_LAYER,))) as sidecar:
        answer = await post(sidecar.proxy_port, {}, to(backend, terms=QUICK))
    assert (answer.status, answer.get("x-outrigger-error")) == (503, "upstream-unreachable")
    assert answer.error()["code"] == "upstream_unreachable"


async def test_broken_answer_ends_promptly(provider: RudeProvider) -> None:
    """A provider that resets every try ends in 502–504, not in a hang."""
    backend = Backend("main", provider.url)
    script = provider.script("reset", [Act.RESET])
    async with serving(snapshot(backend, layers=(QUICK_LAYER,))) as sidecar:
        answer = await post(sidecar.proxy_port, {}, {**to(backend, terms=QUICK), **script})
    assert answer.status in (502, 503, 504)
    assert answer.error()
    assert len(provider.seen("reset")) == 3


async def test_connections_are_few_and_kept(provider: RudeProvider) -> None:
    """Eight callers on HTTP/1.1 share a handful of connections over many calls."""
    backend = Backend("main", provider.url)
    async with serving(snapshot(backend)) as sidecar:

        async def caller() -> None:
            for _ in range(25):
                assert (await post(sidecar.proxy_port, {}, to(backend))).status == 200

        await asyncio.gather(*(caller() for _ in range(8)))
    assert provider.opened <= 16


async def test_connections_are_opened_ahead(provider: RudeProvider) -> None:
    """One call in flight has a second connection opened beside it already."""
    backend = Backend("main", provider.url)
    script = provider.script("held", [Act.HOLD, reply()])
    async with serving(snapshot(backend)) as sidecar:
        call = asyncio.create_task(post(sidecar.proxy_port, {}, {**to(backend), **script}))
        await until(lambda: provider.opened == 2, "a second connection")
        provider.release("held")
        assert (await call).status == 200


async def test_sole_address_is_not_cut_off_by_its_errors(provider: RudeProvider) -> None:
    """A provider with one address that fails again and again is still asked, and served once it is well."""
    backend = Backend("main", provider.url)
    once = RouteTerms(RetryPolicy(attempts=1))
    layer = PolicyLayer("once", settings={"retry.attempts": 1})
    script = provider.script("ill", *[reply(500)] * 12, reply())
    async with serving(snapshot(backend, layers=(layer,))) as sidecar:
        statuses = [
            (await post(sidecar.proxy_port, {}, {**to(backend, terms=once), **script})).status
            for _ in range(13)
        ]
    assert statuses == [500] * 12 + [200]


async def test_parallel_streams_each_have_a_connection(provider: RudeProvider) -> None:
    """Five hundred calls held open at once all reach a provider that speaks HTTP/1.1."""
    backend = Backend("main", provider.url)
    script = provider.script("held", [Act.HOLD, reply(200)])
    async with serving(snapshot(backend)) as sidecar:
        headers = {**to(backend, CallShape.STREAM), **script}
        calls = [asyncio.create_task(post(sidecar.proxy_port, {}, headers, seconds=30)) for _ in range(500)]
        await until(lambda: len(provider.seen("held")) == 500, "500 calls with the provider")
        provider.release("held")
        answers = await asyncio.gather(*calls)
    assert {answer.status for answer in answers} == {200}


async def test_concurrency_makes_the_rest_wait(provider: RudeProvider) -> None:
    """With `quota.concurrency: 3` ten calls all succeed and never more than three are with the provider."""
    backend = Backend("main", provider.url, quota=Quota(concurrency=3))
    script = provider.script("slow", [0.2, reply(200)])
    async with serving(snapshot(backend)) as sidecar:
        answers = await asyncio.gather(
            *(post(sidecar.proxy_port, {}, {**to(backend), **script}) for _ in range(10))
        )
    assert [answer.status for answer in answers] == [200] * 10
    starts = sorted(one.at for one in provider.seen("slow"))
    assert all(later - earlier > 0.15 for earlier, later in zip(starts, starts[3:], strict=False))
    assert provider.opened <= 3


async def test_keys_go_to_their_own_backend_only(
    provider: RudeProvider, capfd: pytest.CaptureFixture[str]
) -> None:
    """A Backend's key replaces the caller's; one without a key passes the caller's; no key is logged."""
    own = Backend("own", provider.url, credential=CredentialRef("env", "OWN_KEY"))
    azure = Backend(
        "azure", provider.url.removesuffix("/v1"), "azure-openai", "1", CredentialRef("env", "AZURE_KEY")
    )
    lost = Backend("lost", provider.url, credential=CredentialRef("env", "NOT_SET"))
    bare = Backend("bare", provider.url)
    environment = {"OWN_KEY": f"{KEY}\n", "AZURE_KEY": "azure-0002"}
    mine = {"authorization": "Bearer sk-mine", "api-key": "mine"}
    async with serving(snapshot(bare, own, azure, lost), environment=environment) as sidecar:
        expected: dict[str, tuple[list[str], list[str]]] = {
            "own": ([f"Bearer {KEY}"], []),
            "azure": ([], ["azure-0002"]),
            "lost": ([], []),
            "bare": (["Bearer sk-mine"], ["mine"]),
        }
        for backend in (own, azure, lost, bare):
            script = provider.script(backend.name, reply())
            headers = {**mine, **to(backend), **script}
            if backend is azure:
                headers["x-test-path"] = "/openai/deployments/d/chat/completions?api-version=1"
            answer = await post(sidecar.proxy_port, {}, headers)
            seen = provider.seen(backend.name)[-1]
            assert answer.get("x-outrigger-backend") == backend.name
            assert (seen.all("authorization"), seen.all("api-key")) == expected[backend.name]
        assert provider.seen("azure")[-1].target == "/openai/deployments/d/chat/completions?api-version=1"
        for path in sidecar.folder.rglob("*"):
            assert not path.is_file() or KEY.encode() not in path.read_bytes()
    told = "".join(capfd.readouterr())
    assert KEY not in told
    assert "the variable NOT_SET is not set" in told


async def test_renewed_key_file_is_used(provider: RudeProvider, tmp_path: Path) -> None:
    """A key file that changes is in use within a few seconds, without new policy."""
    file = tmp_path / "key"
    file.write_text("first")
    backend = Backend("main", provider.url, credential=CredentialRef("file", str(file)))
    script = provider.script("key", reply())
    async with serving(snapshot(backend)) as sidecar:
        await post(sidecar.proxy_port, {}, {**to(backend), **script})
        file.write_text("second")
        async with asyncio.timeout(5):
            while provider.seen("key")[-1].get("authorization") != "Bearer second":
                await post(sidecar.proxy_port, {}, {**to(backend), **script})
    assert provider.seen("key")[0].get("authorization") == "Bearer first"


@asynccontextmanager
async def tls_provider(
    folder: Path, protocols: list[str], application: Callable[..., Awaitable[None]]
) -> AsyncIterator[tuple[int, Path]]:
    """Serve `application` over TLS for `localhost`; yield the port and the file of its authority."""
    authority = trustme.CA()
    certificate = authority.issue_cert("localhost")
    certificate.private_key_pem.write_to_path(folder / "key.pem")
    for number, blob in enumerate(certificate.cert_chain_pems):
        blob.write_to_path(folder / "cert.pem", append=number > 0)
    authority.cert_pem.write_to_path(folder / "ca.pem")
    (port,) = free_ports(1)
    config = Config()
    config.bind = [f"127.0.0.1:{port}"]
    config.certfile, config.keyfile = str(folder / "cert.pem"), str(folder / "key.pem")
    config.alpn_protocols = protocols
    config.loglevel = "CRITICAL"
    stop = asyncio.Event()
    task = asyncio.create_task(serve(application, config, shutdown_trigger=stop.wait))
    try:
        async with asyncio.timeout(5):
            while True:
                try:
                    _, writer = await asyncio.open_connection(
                        "127.0.0.1",
                        port,
                        ssl=ssl.create_default_context(cafile=folder / "ca.pem"),
                        server_hostname="localhost",
                    )
                except OSError:
                    await asyncio.sleep(0.02)
                else:
                    writer.close()
                    break
        yield port, folder / "ca.pem"
    finally:
        stop.set()
        await task


async def describe(scope: Scope, receive: Any, send: Any) -> None:
    """Answer with the HTTP version that the request came in."""
    if scope["type"] != "http":
        return
    body = f'{{"version": "{scope["http_version"]}"}}'.encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


@pytest.mark.parametrize(
    ("protocols", "http", "version"),
    [
        pytest.param(["h2", "http/1.1"], "auto", "2", id="alpn-2"),
        pytest.param(["http/1.1"], "auto", "1.1", id="alpn-falls-back"),
        pytest.param(["h2", "http/1.1"], "1.1", "1.1", id="forced-1.1"),
        pytest.param(["h2", "http/1.1"], "2", "2", id="forced-2"),
    ],
)
async def test_tls_is_verified_and_alpn_decides(
    tmp_path: Path, protocols: list[str], http: Any, version: str
) -> None:
    """Over TLS a trusted provider is spoken to in the best version both know, or the one configured."""
    async with tls_provider(tmp_path, protocols, describe) as (port, authority):
        backend = Backend("main", f"https://localhost:{port}/v1", http=http)
        async with serving(snapshot(backend), ca_file=authority) as sidecar:
            answer = await post(sidecar.proxy_port, {}, to(backend))
    assert (answer.status, answer.json()) == (200, {"version": version})


async def test_quota_holds_over_http2(tmp_path: Path) -> None:
    """`quota.concurrency` counts streams, not connections, where the provider speaks HTTP/2."""
    running = most = 0

    async def slow(scope: Scope, receive: Any, send: Any) -> None:
        nonlocal running, most
        if scope["type"] != "http":
            return
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.1)
        running -= 1
        await describe(scope, receive, send)

    async with tls_provider(tmp_path, ["h2", "http/1.1"], slow) as (port, authority):
        for http in ("auto", "2"):
            most = 0
            backend = Backend(
                "main",
                f"https://localhost:{port}/v1",
                http=http,
                quota=Quota(concurrency=4),
            )
            async with serving(snapshot(backend), ca_file=authority) as sidecar:
                answers: list[Answer] = await asyncio.gather(
                    *(post(sidecar.proxy_port, {}, to(backend)) for _ in range(12))
                )
            assert {answer.status for answer in answers} == {200}
            assert most == 4


@pytest.mark.parametrize("fault", ["stranger", "other-name"])
async def test_untrusted_provider_gets_nothing(tmp_path: Path, fault: str) -> None:
    """A certificate of an unknown authority, or for another name, ends the call before anything is sent."""
    async with tls_provider(tmp_path, ["h2", "http/1.1"], describe) as (port, authority):
        if fault == "stranger":
            trustme.CA().cert_pem.write_to_path(authority)
        host = "localhost" if fault == "stranger" else "127.0.0.1"
        backend = Backend("main", f"https://{host}:{port}/v1")
        async with serving(snapshot(backend, layers=(QUICK_LAYER,)), ca_file=authority) as sidecar:
            answer = await post(sidecar.proxy_port, {}, to(backend, terms=QUICK))
    assert answer.status in (502, 503)
    assert answer.error()["type"] == "server_error"
