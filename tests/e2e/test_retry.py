"""Retries as the provider sees them: which failures, how often, how soon, and what passes in the end."""

from __future__ import annotations

import asyncio
import itertools
import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from tests.e2e.governed import lent
from tests.harness.mesh import Mesh
from tests.harness.raw_http import post
from tests.harness.rude import (
    STREAM_HEAD,
    Act,
    Piece,
    RudeProvider,
    Seen,
    chunk,
    completion,
    reply,
    stream_events,
    stream_reply,
)

PICKY = """\
kind: Backend
metadata: {{name: picky}}
spec: {{url: "http://127.0.0.1:{port}/v1"}}
---
kind: Backend
metadata: {{name: picky-too}}
spec: {{url: "http://127.0.0.1:{port}/v1"}}
---
kind: Model
metadata: {{name: picky}}
spec: {{versions: [{{name: v1, backend: picky}}]}}
---
kind: Model
metadata: {{name: picky-too}}
spec: {{versions: [{{name: v1, backend: picky-too}}], fallbacks: [plain]}}
---
kind: Policy
metadata: {{name: picky}}
spec: {{target: {{models: ["picky*"]}}, cache: {{enabled: true}}}}
"""
CHAT = {"model": "flaky", "messages": [{"role": "user", "content": "hello"}]}
ERROR = {"error": {"message": "no", "type": "server_error", "param": None, "code": "x"}}
FINE = reply(200, completion("fine"))


def failed(status: int, body: object = None, *headers: tuple[str, str]) -> bytes:
    """Return a provider's failure."""
    return reply(status, json.dumps(body or ERROR), headers)


@pytest.mark.parametrize("failure", [429, 500, 502, 503, 504, Act.CLOSE, Act.RESET], ids=str)
async def test_a_passing_failure_is_not_seen(
    mesh: Mesh, rude: RudeProvider, script: str, failure: int | Act
) -> None:
    """Two failures and a success are one success for the caller, with the same body each time."""
    broken: list[Piece] = [failed(failure) if isinstance(failure, int) else failure]
    headers = rude.script(script, broken, broken, FINE)
    answer = await post(mesh.proxy_port, CHAT, headers)
    assert answer.status == 200
    seen = rude.seen(script)
    assert len(seen) == 3
    assert {one.body for one in seen} == {seen[0].body}
    assert seen[0].json()["model"] == "flaky-upstream"


@pytest.mark.parametrize("status", [429, 500, 503])
async def test_attempts_is_the_total_of_tries(
    mesh: Mesh, rude: RudeProvider, script: str, status: int
) -> None:
    """A lasting failure is tried three times, then its status and body pass."""
    headers = rude.script(script, failed(status))
    answer = await post(mesh.proxy_port, CHAT, headers)
    assert answer.status == status
    assert answer.json() == ERROR
    assert len(rude.seen(script)) == 3


@pytest.mark.parametrize("status", [400, 401, 403, 404, 422])
async def test_the_callers_own_mistakes_are_not_retried(
    mesh: Mesh, rude: RudeProvider, script: str, status: int
) -> None:
    """One attempt, and the answer passes byte for byte."""
    body = '{ "error": {"message":"é", "type": "t","param":null,  "code": null}}'
    headers = rude.script(script, reply(status, body, [("x-custom", "kept")]))
    answer = await post(mesh.proxy_port, CHAT, headers)
    assert (answer.status, answer.body) == (status, body.encode())
    assert answer.get("x-custom") == "kept"
    assert len(rude.seen(script)) == 1


async def test_the_last_attempt_is_what_the_caller_gets(mesh: Mesh, rude: RudeProvider, script: str) -> None:
    """Status, body, Retry-After and quota headers are the second attempt's."""
    last = {"error": {"message": "second", "type": "requests", "param": None, "code": "rate_limit_exceeded"}}
    quota = [("retry-after", "7"), ("x-ratelimit-remaining-requests", "0")]
    headers = rude.script(script, failed(503), failed(429, last, *quota))
    answer = await post(mesh.proxy_port, {**CHAT, "model": "twice"}, headers)
    assert answer.status == 429
    assert answer.json() == last
    assert answer.get("retry-after") == "7"
    assert answer.get("x-ratelimit-remaining-requests") == "0"
    assert len(rude.seen(script)) == 2


async def test_a_whole_retry_after_is_waited_for(mesh: Mesh, rude: RudeProvider, script: str) -> None:
    """`Retry-After: 1` moves the next attempt to a second later, though the back-off is shorter."""
    headers = rude.script(script, failed(429, None, ("retry-after", "1")), FINE)
    answer = await post(mesh.proxy_port, CHAT, headers)
    assert answer.status == 200
    first, second = rude.seen(script)
    assert 0.95 <= second.at - first.at <= 2.5


async def test_back_off_has_jitter_and_grows(mesh: Mesh, rude: RudeProvider, script: str) -> None:
    """Twenty callers that fail at once do not come back at once, and never later than the cap."""
    names = [f"{script}-{number}" for number in range(20)]
    headers = [rude.script(name, failed(503)) for name in names]
    await asyncio.gather(*(post(mesh.proxy_port, CHAT, one) for one in headers))
    seen = [[one.at for one in rude.seen(name)] for name in names]
    gaps = [later - earlier for times in seen for earlier, later in itertools.pairwise(times)]
    assert max(gaps) < 1.0
    assert max(gaps) - min(gaps) > 0.02


async def test_a_stream_is_retried_before_its_first_byte(mesh: Mesh, rude: RudeProvider, script: str) -> None:
    """Failures before any content are tried again; the caller sees one clean stream."""
    events = stream_events("one", "two")
    headers = rude.script(script, failed(503), [Act.RESET], stream_reply(events))
    answer = await post(mesh.proxy_port, {**CHAT, "stream": True}, headers)
    assert answer.status == 200
    assert answer.body == b"".join(events)
    assert len(rude.seen(script)) == 3


async def test_a_stream_is_not_retried_after_its_head(mesh: Mesh, rude: RudeProvider, script: str) -> None:
    """Once the provider has begun to answer there is no second try."""
    headers = rude.script(script, [STREAM_HEAD, 0.05, Act.RESET], stream_reply(stream_events("other")))
    try:
        answer = await post(mesh.proxy_port, {**CHAT, "stream": True}, headers, seconds=5)
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
    else:
        assert b"other" not in answer.body
    assert len(rude.seen(script)) == 1


async def test_a_provider_that_is_gone_is_a_clear_5xx(mesh: Mesh) -> None:
    """A refused connection is 502 to 504 in OpenAI's shape, for JSON and streams."""
    for stream in (False, True):
        answer = await post(mesh.proxy_port, {**CHAT, "model": "gone", "stream": stream})
        assert answer.status in (502, 503, 504)
        answer.error()
        assert answer.get("x-outrigger-error")


async def attempts_apart(mesh: Mesh, rude: RudeProvider, script: str, *hints: tuple[str, str]) -> float:
    """Return the seconds between a refusal with `hints` and the next attempt, which succeeds."""
    answer = await post(mesh.proxy_port, CHAT, rude.script(script, failed(429, None, *hints), FINE))
    assert answer.status == 200
    first, second = rude.seen(script)
    return second.at - first.at


def in_seconds(seconds: float, form: str) -> str:
    """Return a moment ahead as a provider writes it."""
    at = datetime.now(UTC) + timedelta(seconds=seconds)
    return at.strftime(form)


DATES = {
    "imf-fixdate": "%a, %d %b %Y %H:%M:%S GMT",
    "rfc-850": "%A, %d-%b-%y %H:%M:%S GMT",
    "asctime": "%a %b %e %H:%M:%S %Y",
}


@pytest.mark.parametrize("form", DATES.values(), ids=DATES)
async def test_dates_are_waited_for(mesh: Mesh, rude: RudeProvider, script: str, form: str) -> None:
    """A date 2 s ahead moves the next attempt there, in each of HTTP's three forms."""
    assert 0.9 <= await attempts_apart(mesh, rude, script, ("retry-after", in_seconds(2, form))) <= 3.5


@pytest.mark.parametrize(
    "value", ["soon", "-5", "", "Sun, 06 Nov 1994 08:49:37 GMT"], ids=["word", "negative", "empty", "past"]
)
async def test_junk_is_no_hint(mesh: Mesh, rude: RudeProvider, script: str, value: str) -> None:
    """The next attempt comes after the normal back-off."""
    assert await attempts_apart(mesh, rude, script, ("retry-after", value)) < 0.9


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("x-ratelimit-reset-requests", "1s"),
        ("x-ratelimit-reset-requests", "900ms"),
        ("x-ratelimit-reset-requests", "iso"),
        ("x-ratelimit-reset-requests", "unix"),
        ("retry-after-ms", "900"),
        ("retry-after", "0.9"),
    ],
)
async def test_each_form_of_hint_is_waited_for(
    mesh: Mesh, rude: RudeProvider, script: str, name: str, value: str
) -> None:
    """Milliseconds, fractions, durations, ISO and UNIX times."""
    if value == "iso":
        value = (datetime.now(UTC) + timedelta(seconds=1)).isoformat()
    elif value == "unix":
        value = str(time.time() + 1)
    apart = await attempts_apart(mesh, rude, script, ("x-ratelimit-remaining-requests", "0"), (name, value))
    assert 0.85 <= apart <= 2.5


async def test_a_hint_above_the_hold_is_the_answer(mesh: Mesh, rude: RudeProvider, script: str) -> None:
    """Six minutes are not waited for: the 429 goes out at once, and says when to come again."""
    hints = [("x-ratelimit-remaining-requests", "0"), ("x-ratelimit-reset-requests", "6m0s")]
    began = time.monotonic()
    headers = rude.script(script, failed(429, None, *hints), FINE)
    answer = await post(mesh.proxy_port, {**CHAT, "model": "resting"}, headers)
    assert time.monotonic() - began < 1
    assert (answer.status, answer.json()) == (429, ERROR)
    assert 355 <= int(answer.get("retry-after") or 0) <= 360
    assert len(rude.seen(script)) == 1
    assert not [name for name, _ in answer.headers if name in ("x-outrigger-retry", "x-outrigger-wait")]


@pytest.mark.parametrize("status", [429, 500, 503])
async def test_should_retry_false_is_obeyed(mesh: Mesh, rude: RudeProvider, script: str, status: int) -> None:
    """`x-should-retry: false` wins over the status."""
    headers = rude.script(script, failed(status, None, ("x-should-retry", "false")), FINE)
    answer = await post(mesh.proxy_port, CHAT, headers)
    assert (answer.status, answer.get("x-should-retry")) == (status, "false")
    assert len(rude.seen(script)) == 1


@pytest.mark.parametrize("chunked", [False, True], ids=["length", "chunked"])
async def test_a_used_up_account_is_not_retried(
    mesh: Mesh, rude: RudeProvider, script: str, chunked: bool
) -> None:
    """`insufficient_quota` passes byte for byte after one attempt, however it is framed."""
    body = json.dumps({"error": {**ERROR["error"], "code": "insufficient_quota"}}).encode()
    whole = reply(429, body)
    if chunked:
        head = b"HTTP/1.1 429 No\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n"
        whole = head + chunk(body[:20]) + chunk(body[20:]) + b"0\r\n\r\n"
    answer = await post(mesh.proxy_port, CHAT, rude.script(script, whole, FINE))
    assert (answer.status, answer.body) == (429, body)
    assert len(rude.seen(script)) == 1


async def test_attempts_are_told(mesh: Mesh, rude: RudeProvider, script: str) -> None:
    """The answer says how many there were."""
    answer = await post(mesh.proxy_port, CHAT, rude.script(script, failed(503), FINE))
    assert answer.get("x-outrigger-attempts") == "2"


async def test_a_slow_call_is_joined_by_another(mesh: Mesh, rude: RudeProvider, script: str) -> None:
    """With `hedgeAfter` a second try answers while the first is silent; a large body is not sent twice."""
    slow: list[Piece] = [1.5, reply(200, completion("slow"))]
    body = {**CHAT, "model": "hedged"}
    answer = await post(mesh.proxy_port, body, rude.script(script, slow, reply(200, completion("quick"))))
    assert (answer.status, answer.json()["choices"][0]["message"]["content"]) == (200, "quick")
    large = f"{script}-large"
    body["messages"] = [{"role": "user", "content": "x" * 20_000}]
    answer = await post(mesh.proxy_port, body, rude.script(large, slow, FINE))
    assert answer.json()["choices"][0]["message"]["content"] == "slow"
    assert (len(rude.seen(script)), len(rude.seen(large))) == (2, 1)


async def test_a_streams_silent_try_is_tried_again(mesh: Mesh, rude: RudeProvider, script: str) -> None:
    """One that runs into `timeouts.request` before its first byte is like one that was reset."""
    events = stream_events("one", "two")
    headers = rude.script(script, [Act.HOLD], stream_reply(events))
    answer = await post(mesh.proxy_port, {**CHAT, "stream": True}, headers)
    assert (answer.status, answer.body) == (200, b"".join(events))
    assert len(rude.seen(script)) == 2


@pytest.fixture(scope="module")
def picky(mesh: Mesh, rude: RudeProvider) -> Iterator[Mesh]:
    """A mesh with providers that know no `stream_options`."""
    with lent(mesh, PICKY.format(port=rude.port)) as borrowed:
        yield borrowed


@pytest.mark.parametrize(
    ("model", "status"),
    [pytest.param("picky", 400, id="alone"), pytest.param("picky-too", 422, id="with a fallback")],
)
async def test_who_knows_no_usage_is_asked_for_none(
    picky: Mesh, rude: RudeProvider, script: str, model: str, status: int
) -> None:
    """The call whose field was refused is made again without it; the next ones are made without at once."""
    events = stream_events("one", "two")
    refusal = failed(status, {"error": {**ERROR["error"], "message": "Unknown field: stream_options"}})

    def answer(seen: Seen) -> list[Piece]:
        return [refusal] if "stream_options" in seen.json() else stream_reply(events)

    headers = rude.script(script, answer)
    document = {"model": model, "stream": True, "messages": [{"role": "user", "content": script}]}
    for number in range(6):
        got = await post(picky.proxy_port, {**document, "seed": number}, headers)
        assert (got.status, got.body) == (200, b"".join(events))
        assert got.get("x-outrigger-model") == model
    asked = [one for one in rude.seen(script) if "stream_options" in one.json()]
    # Each processor learns it by itself, once.
    assert 1 <= len(asked) <= len(picky.pids("processor"))
    assert len(rude.seen(script)) == 6 + len(asked)


async def test_what_the_caller_has_asked_is_the_callers(picky: Mesh, rude: RudeProvider, script: str) -> None:
    """Its own field goes up, and the refusal of it comes back."""
    refusal = failed(400, {"error": {**ERROR["error"], "message": "Unknown field: stream_options"}})
    headers = rude.script(script, refusal)
    document = {**CHAT, "model": "picky", "stream": True, "stream_options": {"include_usage": True}}
    answer = await post(picky.proxy_port, document, headers)
    assert (answer.status, len(rude.seen(script))) == (400, 1)
    assert rude.seen(script)[0].json() == document
