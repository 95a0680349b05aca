"""Forged headers, keys that must not leak, log lines that must not be forged."""

from __future__ import annotations

import asyncio
import json

import pytest

from tests.e2e.documents import PROVIDER_KEY
from tests.harness.mesh import Mesh, http_text
from tests.harness.raw_http import Answer, ask, json_request, post, request_bytes
from tests.harness.rude import Act, RudeProvider, reply

CHAT = "/v1/chat/completions"
GOOD = {"model": "plain", "messages": [{"role": "user", "content": "hello"}]}

FORGED = [
    "x-outrigger-route", "X-Outrigger-Route", "x_outrigger_route", "x-outrigger_route", "X-OUTRIGGER-TENANT",
    "x-outrigger-consumer", "x-outrigger-backend", "x-outrigger-model", "x-outrigger-cache-key",
    "x-envoy-upstream-rq-timeout-ms", "x-envoy-max-retries", "X-Envoy-Retry-On", "x_envoy_retry_on",
    "x-envoy-original-path", "x-envoy-decorator-operation", "x-envoy-force-trace",
    "x-envoy-hedge-on-per-try-timeout", "x-envoy-expected-rq-timeout-ms", "x-envoy-attempt-count",
]  # fmt: skip


@pytest.mark.parametrize("name", FORGED)
async def test_inner_headers_from_outside_have_no_effect(
    mesh: Mesh, rude: RudeProvider, script: str, name: str
) -> None:
    """Whatever the case, and with underscores, they neither steer anything nor reach the provider."""
    value = "1" if "ms" in name else "keyed.json.0000000000"
    headers = {**rude.script(script), name: value}
    answer = await post(mesh.proxy_port, GOOD, headers)
    if answer.status >= 400:
        assert answer.status < 500, answer
        assert rude.seen(script) == []
        return
    assert answer.get("x-outrigger-model") == "plain"
    assert answer.get("x-outrigger-backend") == "rude"
    (seen,) = rude.seen(script)
    sent = {key.lower().replace("_", "-") for key, _ in seen.headers}
    assert not {key for key in sent if key.startswith(("x-outrigger", "x-envoy"))}, seen.headers


async def test_inner_headers_do_not_pass_on_other_paths_either(
    mesh: Mesh, rude: RudeProvider, script: str
) -> None:
    """The paths that are not parsed are stripped alike."""
    headers = [*rude.script(script).items(), *((name, "x") for name in FORGED)]
    answer = await ask(mesh.proxy_port, request_bytes("GET", "/v1/files", None, headers))
    if answer.status == 200:
        sent = {key.lower().replace("_", "-") for key, _ in rude.seen(script)[0].headers}
        assert not {key for key in sent if key.startswith(("x-outrigger", "x-envoy"))}


@pytest.mark.parametrize("target", [CHAT, "/v1/files"])
async def test_nothing_of_the_kind_passes_in_trailers(
    mesh: Mesh, rude: RudeProvider, script: str, target: str
) -> None:
    """Inner names and credentials are taken out of a request's trailers; others arrive."""
    body = json.dumps(GOOD).encode()
    headers = [
        ("content-type", "application/json"),
        ("transfer-encoding", "chunked"),
        *rude.script(script).items(),
    ]
    trailers = b"".join(
        b"%b: x\r\n" % name.encode() for name in [*FORGED, "authorization", "api-key", "x-sum"]
    )
    request = (
        request_bytes("POST", target, b"", headers) + b"%x\r\n%b\r\n0\r\n" % (len(body), body) + trailers
    )
    assert (await ask(mesh.proxy_port, request + b"\r\n")).status == 200
    (seen,) = rude.seen(script)
    assert seen.trailers == [("x-sum", "x")]


@pytest.mark.parametrize(
    "key",
    ["ork_unknown", "ork_", "ORK_unknown", "ork_" + "x" * 6000, "ork_unknow", "ork_unknown1"],
    ids=["random", "empty", "other-case", "6000", "shorter", "longer"],
)
@pytest.mark.parametrize("header", ["authorization", "api-key"])
async def test_an_unknown_consumer_key_gets_one_generic_refusal(
    mesh: Mesh, rude: RudeProvider, script: str, key: str, header: str
) -> None:
    """401 with no piece of the key, no name of a library or path; it never leaves the mesh."""
    value = f"Bearer {key}" if header == "authorization" else key
    headers = {**rude.script(script), header: value}
    for target in (CHAT, "/v1/files", "/v1/models"):
        answer = await post(mesh.proxy_port, GOOD, headers, target)
        if key.startswith("ork_"):
            assert answer.status == 401, target
            assert answer.error()["code"] == "invalid_api_key"
            assert "unknow" not in answer.body.decode()
            assert "xxxx" not in answer.body.decode()
    if key.startswith("ork_"):
        assert rude.seen(script) == []


@pytest.mark.parametrize("scheme", ["bearer ", "BEARER ", "Bearer  ", "Bearer\t", ""])
async def test_every_writing_of_a_consumer_key_is_seen(
    mesh: Mesh, rude: RudeProvider, script: str, scheme: str
) -> None:
    """Case and spaces of the scheme do not hide a Consumer key from us."""
    headers = {**rude.script(script), "authorization": f"{scheme}ork_unknown"}
    answer = await post(mesh.proxy_port, GOOD, headers)
    assert answer.status == 401
    assert rude.seen(script) == []


async def test_a_backends_key_is_in_no_answer_log_metric_or_file(
    mesh: Mesh, rude: RudeProvider, script: str
) -> None:
    """After answers, errors, resets and refused connections the key's marker is nowhere but upstream."""
    echo = json.dumps(
        {"error": {"message": f"bad key {PROVIDER_KEY[:6]}", "type": "t", "param": None, "code": None}}
    )
    headers = rude.script(
        script, reply(401, echo), reply(404, echo), reply(500, echo), [Act.RESET], reply(200, "{}")
    )
    answers: list[Answer] = [
        await post(mesh.proxy_port, {**GOOD, "model": "keyed"}, headers) for _ in range(4)
    ]
    assert any(PROVIDER_KEY in (seen.get("authorization") or "") for seen in rude.seen(script))
    marker = PROVIDER_KEY.encode()
    for answer in answers:
        assert marker not in answer.body
        assert PROVIDER_KEY not in str(answer.headers)
    assert PROVIDER_KEY not in mesh.log()
    assert PROVIDER_KEY not in mesh.metrics()
    for path in mesh.data_dir.rglob("*"):
        assert not path.is_file() or marker not in path.read_bytes(), path
    for page in ("/healthz", "/readyz", "/openapi.json"):
        try:
            assert PROVIDER_KEY not in http_text(f"http://127.0.0.1:{mesh.api_port}{page}")
        except OSError:
            continue
    admin = http_text(f"http://127.0.0.1:{mesh.admin_port}/config_dump")
    assert PROVIDER_KEY not in admin


async def test_no_line_of_the_log_can_be_forged(mesh: Mesh, rude: RudeProvider, script: str) -> None:
    """Line breaks, forged records, ESC and NUL from callers and providers leave no trace as such."""
    forged = '\r\n{"level":"critical","event":"forged-record"}\n\x1b[31mred\x00'
    phone, mail = "13800138000", "someone@example.com"
    evil = f"{forged} {phone} {mail}"
    error = json.dumps({"error": {"message": evil, "type": evil, "param": evil, "code": evil}})
    headers = rude.script(script, reply(400, error), reply(500, error), reply(200, error))
    for document in (
        {"model": evil, "messages": [{"role": "user", "content": evil}]},
        {**GOOD, "user": evil, "metadata": {evil: evil}},
        {**GOOD, "model": "refuse-" + evil},
        {**GOOD, "model": "once", "messages": [{"role": evil, "content": evil}]},
    ):
        await post(mesh.proxy_port, document, headers)
    escaped = "%0d%0a%7B%22event%22:%22forged-record%22%7D%1b%5B31m"
    agent = [
        ("user-agent", 'x {"event":"forged-record"} ' + phone),
        ("x-outrigger-session", mail),
        *headers.items(),
    ]
    await ask(mesh.proxy_port, request_bytes("GET", f"/v1/files/{escaped}?q={escaped}", None, agent))
    await ask(mesh.proxy_port, json_request(CHAT + "?" + escaped, b'{"model": "' + evil.encode(), agent))
    await asyncio.sleep(0)
    log = mesh.log()
    assert "\x1b" not in log
    assert "\x00" not in log
    assert not [line for line in log.splitlines() if line.lstrip().startswith('{"level":"critical"')]
    assert phone not in log
    assert mail not in log
