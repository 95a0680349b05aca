"""Providers that ask to be left alone, and quotas, on the real Envoy."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from tests.e2e.governed import lent
from tests.harness.mesh import Mesh
from tests.harness.raw_http import Answer, connect, json_request, post
from tests.harness.rude import RudeProvider, completion, reply

ERROR = {"error": {"message": "no", "type": "requests", "param": None, "code": "rate_limit_exceeded"}}
FINE = reply(200, completion("fine"))
BACKEND = """\
kind: Backend
metadata: {{name: {name}}}
spec: {{url: "http://127.0.0.1:{port}/v1"{more}}}
---
kind: Model
metadata: {{name: {name}}}
spec: {{versions: [{{name: v1, backend: {name}}}]{fallbacks}}}
---
"""
# Each test makes a Backend of its own cool, so that no other test waits for it.
PLAIN = (
    *(f"form-{number}" for number in range(12)),
    "long",
    "spare",
    "says-zero",
    "account",
    "leaves",
    "outage",
    "keys",
    "together",
)
MESH = """\
kind: Policy
metadata: {name: everyone}
spec: {retry: {attempts: 1}, hold: {max: 4s}}
---
kind: Policy
metadata: {name: twice}
spec: {target: {models: [twice]}, retry: {attempts: 2, base: 100ms}}
---
kind: Policy
metadata: {name: short}
spec: {target: {models: [few]}, hold: {max: 500ms}}
---
kind: Policy
metadata: {name: together}
spec: {target: {models: [together]}, batch: {mode: array, sendBelow: 1, maxWait: 100ms}}
---
kind: Model
metadata: {name: only-first}
spec: {versions: [{name: v1, backend: first}]}
---
kind: Tier
metadata: {name: gold}
spec: {match: {header: {x-outrigger-tier: gold}}, priority: 10}
---
"""


def documents(port: int) -> str:
    """Return the documents of a mesh with one provider behind many Backends."""
    plain = "".join(BACKEND.format(name=name, port=port, more="", fallbacks="") for name in (*PLAIN, "twice"))
    special = "".join(
        BACKEND.format(name=name, port=port, more=more, fallbacks=fallbacks)
        for name, more, fallbacks in (
            ("first", "", ", fallbacks: [spare]"),
            ("falls", "", ", fallbacks: [stands-in]"),
            ("stands-in", ", quota: {requestsPerMinute: 2}", ""),
            ("few", ", quota: {requestsPerMinute: 3}", ""),
            ("narrow", ", quota: {concurrency: 2}", ""),
            ("row", ", quota: {concurrency: 1}", ""),
        )
    )
    return MESH + plain + special


@pytest.fixture(scope="module")
def cooling(mesh: Mesh, rude: RudeProvider) -> Iterator[Mesh]:
    """A mesh in which each call is tried once and held for 4 s at most."""
    with lent(mesh, documents(rude.port)):
        yield mesh


def chat(model: str) -> dict[str, object]:
    """Return a request."""
    return {"model": model, "messages": [{"role": "user", "content": "hello"}]}


def refusal(*headers: tuple[str, str], status: int = 429) -> bytes:
    """Return a provider's refusal."""
    return reply(status, json.dumps(ERROR), headers)


async def call(mesh: Mesh, model: str, headers: dict[str, str]) -> tuple[Answer, float]:
    """Make a call; return its answer and how long it took."""
    begun = time.monotonic()
    return await post(mesh.proxy_port, chat(model), headers, seconds=20), time.monotonic() - begun


def moment(form: str, ahead_s: float) -> str:
    """Return a time so far ahead, written in that form."""
    then = datetime.now(UTC) + timedelta(seconds=ahead_s)
    if form == "unix":
        return f"{then.timestamp():.3f}"
    if form == "iso":
        return then.isoformat()
    texts = {
        "imf": f"{then:%a, %d %b %Y %H:%M:%S} GMT",
        "rfc850": f"{then:%A, %d-%b-%y %H:%M:%S} GMT",
        "asctime": f"{then:%a %b} {then.day:2d} {then:%H:%M:%S %Y}",
    }
    return texts[form]


def exhausted(reset: str) -> tuple[tuple[str, str], ...]:
    """Return the headers of a provider that says that nothing remains until then."""
    return (("x-ratelimit-remaining-requests", "0"), ("x-ratelimit-reset-requests", reset))


SLACK_S = 2.0
"""A machine with other work answers that much later at most."""
FORMS = (
    ("retry-after", "imf", 1.5, 2.6),
    ("retry-after", "rfc850", 1.5, 2.6),
    ("retry-after", "asctime", 1.5, 2.6),
    ("retry-after", "-5", 0.8, 2.3),
    ("retry-after", "soon", 0.8, 2.3),
    ("retry-after-ms", "1500", 1.2, 2.4),
    ("reset", "1ms", 0.0, 1.4),
    ("reset", "2s", 1.7, 2.4),
    ("reset", "1500ms", 1.2, 2.4),
    ("reset", "iso", 1.4, 2.4),
    ("reset", "unix", 1.4, 2.4),
)


async def test_each_form_of_a_hint_is_waited_for(cooling: Mesh, rude: RudeProvider, script: str) -> None:
    """The next call reaches the provider when it has asked for it; junk is the back-off's first step."""

    async def one(number: int, header: str, value: str, least: float, most: float) -> None:
        value = moment(value, 2.6) if value in ("imf", "rfc850", "asctime") else value
        value = moment(value, 2.0) if value in ("iso", "unix") else value
        hint = exhausted(value) if header == "reset" else ((header, value),)
        headers = rude.script(f"{script}-{number}", refusal(*hint), FINE)
        first, _ = await call(cooling, f"form-{number}", headers)
        assert first.status == 429
        second, took = await call(cooling, f"form-{number}", headers)
        assert second.status == 200, value
        assert least <= took <= most + SLACK_S, (header, value, took)

    await asyncio.gather(*(one(number, *form) for number, form in enumerate(FORMS)))


async def test_six_minutes_are_told_at_once(cooling: Mesh, rude: RudeProvider, script: str) -> None:
    """The provider's own 429 first; then ours, with what is left of the time, and no call goes up."""
    headers = rude.script(script, refusal(*exhausted("6m0s")), FINE)
    first, _ = await call(cooling, "long", headers)
    assert first.status == 429
    assert first.json() == ERROR
    answer, took = await call(cooling, "long", headers)
    assert took < 0.5
    assert answer.status == 429
    assert 350 <= int(answer.get("retry-after") or "") <= 360
    assert answer.get("x-outrigger-error") == "cooling"
    assert answer.json()["error"]["code"] == "rate_limit_exceeded"
    assert len(rude.seen(script)) == 1


async def test_an_empty_account_is_no_reason_to_wait(cooling: Mesh, rude: RudeProvider, script: str) -> None:
    """It says nothing of the provider: the next call goes up at once."""
    body = json.dumps({"error": {**ERROR["error"], "code": "insufficient_quota"}}).encode()
    headers = rude.script(script, reply(429, body), FINE)
    assert (await call(cooling, "account", headers))[0].status == 429
    answer, took = await call(cooling, "account", headers)
    assert answer.status == 200
    assert took < 0.5


async def test_nothing_remains_after_a_success(cooling: Mesh, rude: RudeProvider, script: str) -> None:
    """A 200 that says so cools its Backend, too."""
    headers = rude.script(script, reply(200, completion("fine"), exhausted("1500ms")), FINE)
    assert (await call(cooling, "says-zero", headers))[0].status == 200
    answer, took = await call(cooling, "says-zero", headers)
    assert answer.status == 200
    assert 1.2 <= took <= 2.2


async def test_the_last_attempts_words_reach_the_caller(
    cooling: Mesh, rude: RudeProvider, script: str
) -> None:
    """First 503 with one body, then 429 with another and `Retry-After: 7`: status, body and headers."""
    quota = (
        ("retry-after", "7"),
        ("x-ratelimit-limit-requests", "9"),
        ("x-ratelimit-remaining-requests", "0"),
    )
    headers = rude.script(script, reply(503, '{"error": {"message": "first"}}'), refusal(*quota))
    answer, _ = await call(cooling, "twice", headers)
    assert answer.status == 429
    assert answer.json() == ERROR
    assert [answer.get(name) for name, _ in quota] == [value for _, value in quota]
    assert len(rude.seen(script)) == 2


async def test_a_fallback_answers_at_once_while_the_first_cools(
    cooling: Mesh, rude: RudeProvider, script: str
) -> None:
    """Nobody waits, and the answer names who gave it."""
    headers = rude.script(script, refusal(("retry-after", "30")))
    assert (await call(cooling, "only-first", headers))[0].status == 429
    answer, took = await call(cooling, "first", rude.script(f"{script}-fine", FINE))
    assert answer.status == 200
    assert took < 1.0
    assert answer.get("x-outrigger-model") == "spare"
    assert answer.get("x-outrigger-backend") == "spare"


async def test_a_held_client_that_leaves_is_no_call(cooling: Mesh, rude: RudeProvider, script: str) -> None:
    """Its place is free: who stays is the only one that the provider sees."""
    headers = rude.script(script, refusal(("retry-after", "2")), FINE)
    await call(cooling, "leaves", headers)
    async with await connect(cooling.proxy_port) as leaving:
        await leaving.send(json_request("/v1/chat/completions", chat("leaves"), list(headers.items())))
        await asyncio.sleep(0.3)
    staying, _ = await call(cooling, "leaves", headers)
    assert staying.status == 200
    assert len(rude.seen(script)) == 2


async def test_what_does_not_fit_into_the_quota_is_refused(
    cooling: Mesh, rude: RudeProvider, script: str
) -> None:
    """Three a minute: the others hear when the next one fits, and nothing of them goes up."""
    headers = rude.script(script, FINE)
    answers = await asyncio.gather(*(call(cooling, "few", headers) for _ in range(8)))
    statuses = sorted(answer.status for answer, _ in answers)
    assert statuses == [200] * 3 + [429] * 5
    assert max(took for _, took in answers) < 2.0
    assert len(rude.seen(script)) == 3
    for answer, _ in answers:
        if answer.status == 429:
            assert answer.get("x-outrigger-error") == "quota"
            assert 55 <= int(answer.get("retry-after") or "") <= 61


async def test_a_stand_ins_calls_count_in_its_quota(cooling: Mesh, rude: RudeProvider, script: str) -> None:
    """Envoy turns to it by itself; whoever asks for it afterwards finds nothing left."""
    failed = reply(500, json.dumps(ERROR))
    headers = rude.script(script, failed, FINE, failed, FINE)
    for _ in range(2):
        answer, _ = await call(cooling, "falls", headers)
        assert (answer.status, answer.get("x-outrigger-backend")) == (200, "stands-in")
    answer, took = await call(cooling, "stands-in", headers)
    assert (answer.status, answer.get("x-outrigger-error")) == (429, "quota")
    assert took < 1.0
    assert len(rude.seen(script)) == 4


async def test_calls_beyond_the_concurrency_wait(cooling: Mesh, rude: RudeProvider, script: str) -> None:
    """Two at the same time, for longer than anything is held otherwise; all are answered."""
    headers = rude.script(script, [0.5, FINE])
    answers = await asyncio.gather(*(call(cooling, "narrow", headers) for _ in range(20)))
    assert {answer.status for answer, _ in answers} == {200}
    assert 4.9 <= max(took for _, took in answers) <= 9.0
    times = sorted(one.at for one in rude.seen(script))
    assert all(later - earlier >= 0.45 for earlier, later in zip(times, times[2:], strict=False))


async def test_higher_tiers_go_first(cooling: Mesh, rude: RudeProvider, script: str) -> None:
    """Of those that wait for a place, whenever they came."""
    names = {tier: f"{script}-{tier}" for tier in ("gold", "free")}
    headers = {
        tier: {**rude.script(name, [0.3, FINE]), "x-outrigger-tier": tier} for tier, name in names.items()
    }
    first = asyncio.create_task(call(cooling, "row", rude.script(script, [1.0, FINE])))
    await asyncio.sleep(0.3)
    waiting = [asyncio.create_task(call(cooling, "row", headers["free"])) for _ in range(2)]
    await asyncio.sleep(0.2)
    waiting += [asyncio.create_task(call(cooling, "row", headers["gold"])) for _ in range(2)]
    await asyncio.gather(first, *waiting)
    gold, free = (sorted(one.at for one in rude.seen(names[tier])) for tier in ("gold", "free"))
    assert max(gold) < min(free)


async def test_a_refusal_of_one_key_holds_nobody_elses(
    cooling: Mesh, rude: RudeProvider, script: str
) -> None:
    """Where the callers' own keys pass through, each cools by itself; out of service is so for all."""
    one = {"authorization": "Bearer sk-one", **rude.script(f"{script}-one", refusal(("retry-after", "30")))}
    other = {
        "authorization": "Bearer sk-other",
        **rude.script(f"{script}-other", FINE, refusal(("retry-after", "30"), status=503)),
    }
    first, _ = await call(cooling, "keys", one)
    assert (first.status, first.get("x-outrigger-key")) == (429, None)
    assert (await call(cooling, "keys", one))[0].get("x-outrigger-error") == "cooling"
    await asyncio.sleep(0.3)  # what Envoy's log of attempts says of it has come by then
    answer, took = await call(cooling, "keys", other)
    assert answer.status == 200
    assert took < 1.0
    assert (await call(cooling, "keys", other))[0].status == 503
    for headers in (other, {"authorization": "Bearer sk-third", **rude.script(f"{script}-third", FINE)}):
        assert (await call(cooling, "keys", headers))[0].get("x-outrigger-error") == "cooling"
    assert not rude.seen(f"{script}-third")


async def test_a_processors_own_call_says_whose_key_it_is(
    cooling: Mesh, rude: RudeProvider, script: str
) -> None:
    """A batch's call is refused: only those with its key wait, and no provider sees what says so."""
    refused = {
        "authorization": "Bearer sk-one",
        **rude.script(f"{script}-one", refusal(("retry-after", "30"))),
    }
    other = {"authorization": "Bearer sk-other", **rude.script(f"{script}-other", FINE)}
    await call(cooling, "together", refused)
    await asyncio.sleep(0.3)
    assert (await call(cooling, "together", refused))[0].get("x-outrigger-error") == "cooling"
    assert (await call(cooling, "together", other))[0].status == 200
    seen = rude.seen(f"{script}-one") + rude.seen(f"{script}-other")
    assert all(one.get("x-outrigger-key") is None for one in seen)


async def test_an_outage_costs_few_calls_and_is_over_soon(
    cooling: Mesh, rude: RudeProvider, script: str
) -> None:
    """While the provider is down, one call or two try now and then; when it is back, so is everybody."""
    down = {"is": True}
    headers = rude.script(script, lambda seen: [refusal(status=503) if down["is"] else FINE])
    ends_at = time.monotonic() + 4.0
    came_back: list[float] = []

    async def client() -> None:
        while down["is"] or not came_back or time.monotonic() < came_back[0] + 0.5:
            answer, _ = await call(cooling, "outage", headers)
            if answer.status == 200:
                came_back.append(time.monotonic())
            if time.monotonic() > ends_at:
                down["is"] = False

    clients = [asyncio.create_task(client()) for _ in range(20)]
    await asyncio.sleep(4.0)
    down["is"] = False
    back_at = time.monotonic()
    await asyncio.gather(*clients)
    tried = [one for one in rude.seen(script) if one.at < back_at]
    assert len(tried) <= 20 + 8
    assert min(came_back) - back_at < 4.5
