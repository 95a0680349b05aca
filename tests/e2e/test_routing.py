"""Where requests go: names, versions, spellings of paths, what the provider is shown."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from tests.e2e.documents import PROVIDER_KEY
from tests.harness.mesh import Mesh
from tests.harness.raw_http import ask, json_request, post, request_bytes
from tests.harness.rude import RudeProvider

CHAT = "/v1/chat/completions"
GOOD = {"model": "plain", "messages": [{"role": "user", "content": "hello"}]}


async def test_a_body_that_no_stage_changes_goes_up_byte_for_byte(
    mesh: Mesh, rude: RudeProvider, script: str
) -> None:
    """Odd white space, unknown fields and the query string arrive as they were sent."""
    body = (
        b'{\n "x_future" : 1e2,\t"model":"plain" ,"messages":[{"role":"user","content":"\\u00e9\xc3\xa9"}]}  '
    )
    headers = [("content-type", "application/json"), *rude.script(script).items()]
    answer = await ask(mesh.proxy_port, request_bytes("POST", f"{CHAT}?a=1&b=%2F", body, headers))
    assert answer.status == 200
    seen = rude.seen(script)[0]
    assert seen.body == body
    assert seen.target == f"{CHAT}?a=1&b=%2F"


async def test_an_alias_names_its_model(mesh: Mesh, rude: RudeProvider, script: str) -> None:
    """The provider is asked for the version's upstream model, the caller is told the Model's name."""
    answer = await post(mesh.proxy_port, {**GOOD, "model": "plain-alias"}, rude.script(script))
    assert answer.get("x-outrigger-model") == "plain"
    assert rude.seen(script)[0].json()["model"] == "plain"


async def test_versions_share_by_weight(mesh: Mesh, rude: RudeProvider, script: str) -> None:
    """Of 200 calls about three quarters go to the version of weight 75, and each is told its version."""
    headers = rude.script(script)
    answers = await asyncio.gather(
        *(post(mesh.proxy_port, {**GOOD, "model": "split"}, headers, seconds=30) for _ in range(200))
    )
    told = Counter(answer.get("x-outrigger-version") for answer in answers)
    sent = Counter(seen.json()["model"] for seen in rude.seen(script))
    assert told == sent
    assert set(told) == {"left", "right"}
    assert 120 <= told["left"] <= 180, told  # 150 ± 5 standard deviations


async def test_a_session_keeps_its_version(mesh: Mesh) -> None:
    """Calls with one session id all get the same version."""
    for session in ("s-1", "s-2", "s-3"):
        answers = await asyncio.gather(
            *(
                post(mesh.proxy_port, {**GOOD, "model": "split"}, {"x-outrigger-session": session})
                for _ in range(10)
            )
        )
        assert len({answer.get("x-outrigger-version") for answer in answers}) == 1


async def test_a_mobile_caller_is_degraded(mesh: Mesh) -> None:
    """The first matching `degrade` rule names the Model that answers."""
    document = {**GOOD, "model": "degraded"}
    mobile = await post(mesh.proxy_port, document, {"user-agent": "App/1 Mobile Safari"})
    desk = await post(mesh.proxy_port, document, {"user-agent": "App/1"})
    assert mobile.get("x-outrigger-model") == "plain"
    assert desk.get("x-outrigger-model") == "degraded"


async def test_parameters_are_clamped(mesh: Mesh, rude: RudeProvider, script: str) -> None:
    """Values above the caps come down to them in both spellings; others stay as they are."""
    headers = rude.script(script)
    for more in (
        {"temperature": 1.5, "max_tokens": 500},
        {"max_completion_tokens": 500},
        {"temperature": 0.1},
    ):
        await post(mesh.proxy_port, {**GOOD, "model": "clamped", **more}, headers)
    first, second, third = (seen.json() for seen in rude.seen(script))
    assert (first["temperature"], first["max_tokens"]) == (0.3, 100)
    assert second["max_completion_tokens"] == 100
    assert third["temperature"] == 0.1
    assert "max_tokens" not in third


@pytest.mark.parametrize(
    "target",
    [
        "/v1/chat/completions/",
        "//v1/chat/completions",
        "/v1//chat/completions",
        "/v1/chat%2Fcompletions",
        "/v1/chat%2fcompletions",
        "/v1%2Fchat%2Fcompletions",
        "/v1/chat%5Ccompletions",
        "/v1/chat%252Fcompletions",
        "/v1/x%2F..%2Fchat/completions",
        "/v1/models%2F..%2Fchat/completions",
        "/v1/./chat/completions",
        "/v1/x/../chat/completions",
        "/v1/%2e%2e/v1/chat/completions",
        "/V1/Chat/Completions",
        "/v1/chat/completions;x=1",
        "/v1;x=1/chat/completions",
        "/chat/completions",
        "/v1/chat/completion%73",
        "/v1/chat/completions%20",
        "/v1/chat/completions%00",
        "/v1/chat\\completions",
        "/v1/chat/completions/%2e",
        "/v1/%63hat/completions",
        "/v1/%2563hat/completions",
        "http://mesh.test/v1/chat/completions",
        "/v1/chat/completions?x=1",
        "/v1/chat/completions#x",
    ],
)
async def test_no_spelling_of_a_path_switches_the_policies_off(
    mesh: Mesh, rude: RudeProvider, script: str, target: str
) -> None:
    """Each spelling is handled in full (a policy shows its effect) or refused; none goes up untouched."""
    document = {**GOOD, "model": "clamped", "temperature": 1.9}
    answer = await ask(mesh.proxy_port, json_request(target, document, list(rude.script(script).items())), 3)
    if answer.status == 200:
        assert answer.get("x-outrigger-model") == "clamped"
        assert [seen.json()["temperature"] for seen in rude.seen(script)] == [0.3]
    else:
        assert 400 <= answer.status < 500, answer
        assert rude.seen(script) == []
        answer.error()


@pytest.mark.parametrize(
    ("method", "target"),
    [
        ("GET", "/v1/files/file-abc/content"),
        ("DELETE", "/v1/files/file-abc"),
        ("POST", "/v1/audio/transcriptions"),
        ("POST", "/v1/images/generations?x=y"),
        ("POST", "/v1/batches"),
        ("POST", "/v1/responses"),
        ("GET", "/v1/chat/completions/chatcmpl-1"),
        ("PATCH", "/v1/anything/at%20all"),
    ],
)
async def test_other_paths_pass_untouched(
    mesh: Mesh, rude: RudeProvider, script: str, method: str, target: str
) -> None:
    """Every path and method of the API reaches the default Backend as it is."""
    body = b"\x00\x01 not json \xff" if method in ("POST", "PATCH") else None
    headers = [("content-type", "application/octet-stream"), *rude.script(script).items()]
    answer = await ask(mesh.proxy_port, request_bytes(method, target, body, headers))
    assert answer.status == 200
    seen = rude.seen(script)[0]
    assert (seen.method, seen.target, seen.body) == (method, target, body or b"")
    assert answer.get("x-outrigger-backend") == "rude"


async def test_a_base_path_and_a_key_are_the_backends_own(
    mesh: Mesh, rude: RudeProvider, script: str
) -> None:
    """`/v1/<rest>` becomes `<base path>/<rest>`, and the Backend's key replaces the caller's."""
    headers = {**rude.script(script), "authorization": "Bearer sk-callers-own", "api-key": "callers-own"}
    answer = await post(mesh.proxy_port, {**GOOD, "model": "keyed"}, headers, f"{CHAT}?q=1")
    assert answer.status == 200
    seen = rude.seen(script)[0]
    assert seen.target == "/base/path/chat/completions?q=1"
    assert seen.all("authorization") == [f"Bearer {PROVIDER_KEY}"]
    assert seen.all("api-key") == []


async def test_azure_gets_its_own_path_and_key_header(mesh: Mesh, rude: RudeProvider, script: str) -> None:
    """A deployment path, `?api-version=`, and `api-key` instead of `authorization`."""
    headers = {**rude.script(script), "authorization": "Bearer sk-callers-own"}
    answer = await post(mesh.proxy_port, {**GOOD, "model": "azure"}, headers)
    assert answer.status == 200
    seen = rude.seen(script)[0]
    assert seen.target == "/openai/deployments/my-deployment/chat/completions?api-version=2024-10-21"
    assert seen.all("api-key") == [PROVIDER_KEY]
    assert seen.all("authorization") == []


async def test_a_callers_key_passes_where_the_backend_has_none(
    mesh: Mesh, rude: RudeProvider, script: str
) -> None:
    """The provider's own key from the application goes through unchanged."""
    headers = {**rude.script(script), "authorization": "Bearer sk-callers-own"}
    await post(mesh.proxy_port, GOOD, headers)
    assert rude.seen(script)[0].all("authorization") == ["Bearer sk-callers-own"]


async def test_the_provider_sees_no_trace_of_the_mesh(mesh: Mesh, rude: RudeProvider, script: str) -> None:
    """No x-outrigger-*, no x-envoy-*, no x-forwarded-* and the provider's own host name."""
    await post(mesh.proxy_port, {**GOOD, "model": "split"}, {**rude.script(script), "x-custom": "kept"})
    seen = rude.seen(script)[0]
    names = {name.lower() for name, _ in seen.headers}
    assert not {name for name in names if name.startswith(("x-outrigger-", "x-envoy-", "x-forwarded-"))}, (
        names
    )
    assert seen.get("host") == f"127.0.0.1:{rude.port}"
    assert seen.get("x-custom") == "kept"


async def test_each_answer_has_a_request_id_of_its_own(mesh: Mesh) -> None:
    """Two calls have two ids, errors of ours included."""
    answers = [
        await post(mesh.proxy_port, GOOD),
        await post(mesh.proxy_port, GOOD),
        await post(mesh.proxy_port, {}),
    ]
    ids = [answer.get("x-request-id") for answer in answers]
    assert all(ids)
    assert len(set(ids)) == 3
