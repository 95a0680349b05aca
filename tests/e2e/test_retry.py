"""Retries as the provider sees them: which failures, how often, how soon, and what passes in the end."""

from __future__ import annotations

import asyncio
import itertools
import json

import pytest

from tests.harness.mesh import Mesh
from tests.harness.raw_http import post
from tests.harness.rude import (
    STREAM_HEAD,
    Act,
    Piece,
    RudeProvider,
    completion,
    reply,
    stream_events,
    stream_reply,
)

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
