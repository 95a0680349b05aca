"""Limits on the real Envoy: who passes, what is charged in the end, and what callers are told."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping

import openai
import pytest

from tests.e2e.governed import ADMIN, Governed
from tests.harness.mesh import Mesh
from tests.harness.raw_http import Answer, ask, connect, json_request, post
from tests.harness.rude import (
    STREAM_END,
    STREAM_HEAD,
    Act,
    Piece,
    RudeProvider,
    chunk,
    completion,
    delta,
    event,
    reply,
    stream_reply,
)

SIX = tuple(
    f"x-ratelimit-{what}-{rate}"
    for rate in ("requests", "tokens")
    for what in ("limit", "remaining", "reset")
)
TIER = """\
kind: Tier
metadata: {{name: {name}}}
spec: {{match: {{header: {{x-outrigger-tier: {name}}}}}, limits: {{{limits}}}}}
---
"""
MESH = """\
kind: Backend
metadata: {{name: rude}}
spec: {{url: "http://127.0.0.1:{port}/v1", default: true}}
---
kind: Model
metadata: {{name: m}}
spec: {{versions: [{{name: v1, backend: rude}}]}}
---
kind: Model
metadata: {{name: cached}}
spec: {{versions: [{{name: v1, backend: rude}}]}}
---
kind: Model
metadata: {{name: scarce}}
spec: {{versions: [{{name: v1, backend: rude}}], limits: {{requestsPerMinute: 3}}}}
---
kind: Model
metadata: {{name: batched}}
spec: {{versions: [{{name: v1, backend: rude}}]}}
---
kind: Model
metadata: {{name: priced}}
spec: {{versions: [{{name: v1, backend: rude}}], prices: {{inputPerMillion: 1000, outputPerMillion: 2000}}}}
---
kind: Model
metadata: {{name: crowded}}
spec: {{versions: [{{name: v1, backend: rude}}], limits: {{requestsPerMinute: 20}}}}
---
kind: Model
metadata: {{name: loaded}}
spec:
  versions: [{{name: v1, backend: rude}}]
  limits: {{requestsPerMinute: 5}}
  degrade: [{{load: 0.8, model: m}}]
---
kind: Model
metadata: {{name: clamped}}
spec: {{versions: [{{name: v1, backend: rude}}]}}
---
kind: Policy
metadata: {{name: clamped}}
spec: {{target: {{models: [clamped]}}, parameters: {{temperature: {{max: 0.3}}, maxTokens: {{default: 9}}}}}}
---
kind: Policy
metadata: {{name: all}}
spec: {{retry: {{attempts: 1}}}}
---
kind: Policy
metadata: {{name: cached}}
spec: {{target: {{models: [cached]}}, cache: {{enabled: true}}, coalesce: {{enabled: true}}}}
---
kind: Policy
metadata: {{name: batched}}
spec: {{target: {{models: [batched]}}, batch: {{mode: native, sendBelow: 1, maxWait: 200ms}}}}
---
kind: Consumer
metadata: {{name: a}}
spec: {{tenant: a, tier: ten}}
---
kind: Consumer
metadata: {{name: b}}
spec: {{tenant: b, tier: ten}}
---
"""
TIERS = {
    "ten": "requestsPerMinute: 10, tokensPerMinute: 1000000",
    "hundred": "requestsPerMinute: 100",
    "both": "requestsPerMinute: 1000, tokensPerMinute: 100000",
    "few-tokens": "tokensPerMinute: 100",
    "stream-tokens": "tokensPerMinute: 100000",
    "narrow": "concurrency: 2",
    "cached": "requestsPerMinute: 2, tokensPerMinute: 1000000",
    "counted": "requestsPerMinute: 3, countCached: true",
    "spelt": "requestsPerMinute: 2",
    "changing": "requestsPerMinute: 50",
    "batched": "requestsPerMinute: 5, tokensPerMinute: 1000000",
    "raw": "requestsPerMinute: 2",
    "sdk": "requestsPerMinute: 1",
    "day": "tokensPerDay: 2000",
    "purse": "costPerDay: 2.5",
}
FIRST = """\
kind: Tier
metadata: {name: first}
spec: {match: {header: {x-outrigger-tier: first}}, priority: 10}
---
"""


def documents(port: int) -> str:
    """Return the documents of a mesh with one provider."""
    tiers = "".join(TIER.format(name=name, limits=limits) for name, limits in TIERS.items())
    return MESH.format(port=port) + FIRST + tiers


@pytest.fixture(scope="module")
def limited(rude: RudeProvider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Governed]:
    """A mesh whose tiers have limits; each test uses a tier of its own."""
    with Mesh(
        tmp_path_factory.mktemp("limited"), documents(rude.port), options=("--admin-token", ADMIN)
    ) as mesh:
        yield Governed(mesh)


def in_tier(tier: str, **headers: str) -> dict[str, str]:
    """Return the headers of a caller without a Consumer in `tier`."""
    return {"x-outrigger-tier": tier, **headers}


async def say(
    mesh: Mesh, headers: Mapping[str, str], text: str = "hello", model: str = "m", **more: object
) -> Answer:
    """Ask a Model."""
    document = {"model": model, "messages": [{"role": "user", "content": text}], **more}
    return await post(mesh.proxy_port, document, headers, seconds=30)


async def storm(
    mesh: Mesh, count: int, headers: Callable[[int], Mapping[str, str]], **more: object
) -> list[Answer]:
    """Ask `count` times at once."""
    gate = asyncio.Semaphore(500)  # a machine has so many files, and Envoy a queue

    async def one(number: int) -> Answer:
        async with gate:
            return await say(mesh, headers(number), **more)  # type: ignore[arg-type]

    return await asyncio.gather(*map(one, range(count)))


def statuses(answers: list[Answer]) -> Counter[int]:
    """Return how often each status came."""
    return Counter(answer.status for answer in answers)


async def test_exactly_as_many_pass_as_the_limit_allows(
    limited: Governed, rude: RudeProvider, script: str
) -> None:
    """Two thousand at once on a limit of a hundred; nothing fails open."""
    headers = rude.script(script, [reply(200, completion())])
    answers = await storm(limited.mesh, 2_000, lambda _: in_tier("hundred", **headers))
    assert statuses(answers) == {200: 100, 429: 1_900}
    assert len(rude.seen(script)) == 100
    assert not re.search(r"^outrigger_bypass_total\{[^}]*\} [1-9]", limited.mesh.metrics(), re.MULTILINE)


async def test_a_refusal_is_one_of_openais(limited: Governed) -> None:
    """Status, shape, code, wait, and all six headers, which are on what passed, too."""
    passed, refused = None, None
    for _ in range(11):
        answer = await say(limited.mesh, in_tier("ten"))
        if answer.status == 200:
            passed = answer
        else:
            refused = answer
    assert passed is not None
    assert refused is not None
    assert refused.status == 429
    error = refused.error()
    assert (error["type"], error["code"], error["param"]) == ("requests", "rate_limit_exceeded", None)
    assert refused.get("x-outrigger-error") == "rate-limit"
    assert 1 <= int(refused.get("retry-after") or "") <= 60
    assert [passed.get(name) for name in SIX[:3]] == ["10", "0", "1m0s"]
    for answer in (passed, refused):
        assert all(len(answer.all(name)) == 1 for name in SIX), answer.headers
    assert int(passed.get(SIX[4]) or "") < 1_000_000


async def test_ours_stand_in_the_place_of_the_providers(
    limited: Governed, rude: RudeProvider, script: str
) -> None:
    """Also on its own 429, whose wait passes; what it failed is given back."""
    theirs = [(name, "7") for name in SIX]
    headers = rude.script(
        script,
        reply(200, completion(), theirs),
        reply(429, {"error": {"message": "slow"}}, [*theirs, ("retry-after", "7")]),
        reply(400, {"error": {"message": "bad"}}, theirs),
    )
    answers = [await say(limited.mesh, in_tier("both", **headers)) for _ in range(4)]
    assert [answer.status for answer in answers] == [200, 429, 400, 400]
    assert [answer.get("x-ratelimit-remaining-requests") for answer in answers] == ["999", "998", "7", "7"]
    assert answers[1].get("retry-after") == "7"
    last = await say(limited.mesh, in_tier("both"))
    assert last.get("x-ratelimit-remaining-requests") == "998"
    # Twelve tokens each were used; the rest of what was reserved for this one shows.
    assert int(last.get("x-ratelimit-remaining-tokens") or "") > 100_000 - 12 - 1_200


async def test_tokens_are_reserved_before_they_are_used(
    limited: Governed, rude: RudeProvider, script: str
) -> None:
    """Of ten calls at once that take 60 tokens each, a hundred a minute let at most two go up."""
    usage = {"prompt_tokens": 20, "completion_tokens": 40, "total_tokens": 60}
    headers = rude.script(script, [0.2, reply(200, completion(usage=usage))])
    answers = await storm(limited.mesh, 10, lambda _: in_tier("few-tokens", **headers))
    assert 1 <= len(rude.seen(script)) <= 2
    refused = next(answer for answer in answers if answer.status == 429)
    assert refused.error()["type"] == "tokens"
    answer = await say(limited.mesh, in_tier("few-tokens", **headers), max_tokens=10)
    assert answer.status == 200


async def remaining_tokens(limited: Governed, tier: str, headers: Mapping[str, str]) -> int:
    """Return what was left before a call that then failed, and so cost nothing."""
    answer = await say(limited.mesh, in_tier(tier, **headers), max_tokens=1)
    assert answer.status == 429
    assert answer.error()["code"] is None  # the provider's own
    return int(answer.get("x-ratelimit-remaining-tokens") or "")


async def test_a_stream_that_is_left_is_charged_once_by_what_came(
    limited: Governed, rude: RudeProvider
) -> None:
    """Just before its usage, again and again; its call is closed. A JSON call that is left costs nothing."""
    probe = rude.script(
        "limits-probe", reply(429, {"error": {"message": "no", "type": "x", "param": None, "code": None}})
    )
    words = [event(delta(f"word{number} ")) for number in range(50)]
    left: list[Piece] = [STREAM_HEAD, *(chunk(one) for one in words), Act.HOLD]
    whole = rude.script(
        "limits-whole",
        stream_reply(
            [
                *words,
                event(delta(finish="stop")),
                event(
                    {
                        **delta(),
                        "choices": [],
                        "usage": {"prompt_tokens": 10, "completion_tokens": 50, "total_tokens": 60},
                    }
                ),
                b"data: [DONE]\n\n",
            ]
        ),
    )
    before = await remaining_tokens(limited, "stream-tokens", probe)
    answer = await say(limited.mesh, in_tier("stream-tokens", **whole), stream=True)
    assert answer.status == 200
    assert b"usage" not in answer.body
    told = await remaining_tokens(limited, "stream-tokens", probe)
    assert before - told == 60
    for number in range(3):
        name = f"limits-left-{number}"
        headers = rude.script(name, left)
        document = {"model": "m", "messages": [{"role": "user", "content": "hello"}], "stream": True}
        async with await connect(limited.mesh.proxy_port) as connection:
            await connection.send(
                json_request(
                    "/v1/chat/completions", document, list(in_tier("stream-tokens", **headers).items())
                )
            )
            await connection.receive_head()
            seen = b""
            while b"word49" not in seen:
                seen += await connection.receive_chunk()
        assert await asyncio.to_thread(rude.seen(name)[0].aborted.wait, 1)
    after = await remaining_tokens(limited, "stream-tokens", probe)
    assert 3 * 50 <= told - after <= 3 * 250
    gone = rude.script("limits-gone", [Act.HOLD])
    leaving = asyncio.create_task(say(limited.mesh, in_tier("stream-tokens", **gone)))
    async with asyncio.timeout(5):
        while not rude.seen("limits-gone"):  # noqa: ASYNC110 - another thread
            await asyncio.sleep(0.01)
    leaving.cancel()
    assert await asyncio.to_thread(rude.seen("limits-gone")[0].aborted.wait, 1)
    async with asyncio.timeout(5):
        while await remaining_tokens(limited, "stream-tokens", probe) != after:
            pass


async def test_so_many_at_the_same_time(limited: Governed, rude: RudeProvider, script: str) -> None:
    """A third call is refused until one has ended, be it JSON or a stream."""
    held: list[Piece] = [
        STREAM_HEAD,
        chunk(event(delta("a"))),
        Act.HOLD,
        chunk(event(delta(finish="stop"))),
        STREAM_END,
    ]
    headers = in_tier("narrow", **rude.script(script, held))
    streams = [asyncio.create_task(say(limited.mesh, headers, stream=True)) for _ in range(2)]
    async with asyncio.timeout(5):
        while len(rude.seen(script)) < 2:  # noqa: ASYNC110 - another thread
            await asyncio.sleep(0.01)
    refused = await say(limited.mesh, in_tier("narrow"))
    assert (refused.status, refused.get("retry-after")) == (429, "1")
    rude.release(script)
    assert [answer.status for answer in await asyncio.gather(*streams)] == [200, 200]
    async with asyncio.timeout(5):
        while (await say(limited.mesh, in_tier("narrow"))).status != 200:
            pass


async def test_hits_and_followers_are_free(limited: Governed, rude: RudeProvider, script: str) -> None:
    """Unless they are counted; a refused leader's followers are refused, not lost."""
    headers = rude.script(script, [0.2, reply(200, completion())])
    first = await storm(limited.mesh, 20, lambda _: in_tier("cached", **headers), model="cached")
    again = await storm(limited.mesh, 20, lambda _: in_tier("cached", **headers), model="cached")
    assert statuses([*first, *again]) == {200: 40}
    assert {answer.get("x-outrigger-cache") for answer in again} == {"hit"}
    assert {answer.get("x-ratelimit-remaining-requests") for answer in again} == {"1"}
    assert len(rude.seen(script)) == 1
    other = [await say(limited.mesh, in_tier("cached"), text, "cached") for text in ("a", "b")]
    assert [answer.status for answer in other] == [200, 429]
    refused = await storm(limited.mesh, 20, lambda _: in_tier("cached"), text="c", model="cached")
    assert statuses(refused) == {429: 20}
    hits = [await say(limited.mesh, in_tier("counted"), "same", "cached") for _ in range(4)]
    assert [answer.status for answer in hits] == [200, 200, 200, 429]
    assert hits[2].get("x-outrigger-cache") == "hit"


async def test_members_of_a_batch_each_count(limited: Governed, rude: RudeProvider, script: str) -> None:
    """Six ask for vectors, five may, in one call; each is charged its share."""
    data = [{"object": "embedding", "index": i, "embedding": [1.0]} for i in range(5)]
    usage = {"prompt_tokens": 50, "total_tokens": 50}
    headers = rude.script(script, reply(200, {"object": "list", "data": data, "model": "r", "usage": usage}))
    answers = await asyncio.gather(
        *(
            post(
                limited.mesh.proxy_port,
                {"model": "batched", "input": f"text {number}"},
                in_tier("batched", **headers),
                "/v1/embeddings",
            )
            for number in range(6)
        )
    )
    assert statuses(list(answers)) == {200: 5, 429: 1}
    assert len(rude.seen(script)) == 1
    again = await post(
        limited.mesh.proxy_port, {"model": "batched", "input": "x"}, in_tier("batched"), "/v1/embeddings"
    )
    assert again.get("x-ratelimit-remaining-tokens") == str(1_000_000 - 50)


@pytest.mark.parametrize(
    "path",
    [
        "/v1/chat/completions",
        "//v1/chat/completions",
        "/v1//chat/completions",
        "/v1/chat%2Fcompletions",
        "/v1/chat%2fcompletions",
        "/%761/chat/completions",
        "/v1/chat/completions/",
        "/v1/Chat/Completions",
        "/v1/x/../chat/completions",
        "/v1/chat/completions;a=b",
    ],
)
async def test_no_spelling_slips_by(limited: Governed, rude: RudeProvider, path: str) -> None:
    """However the path is written, the provider sees no call beyond the limit."""
    headers = in_tier("spelt", **rude.script("limits-spelt", reply(200, completion())))
    for _ in range(3):
        await say(limited.mesh, headers)
    before = len(rude.seen("limits-spelt"))
    answer = await ask(
        limited.mesh.proxy_port,
        json_request(
            path, {"model": "m", "messages": [{"role": "user", "content": "x"}]}, list(headers.items())
        ),
    )
    assert answer.status in (400, 404, 429), answer
    assert len(rude.seen("limits-spelt")) == before


async def test_a_caller_is_one_however_it_looks(limited: Governed, rude: RudeProvider, script: str) -> None:
    """One key stays one bucket; another Consumer of the tier has its own; a header moves nobody."""
    headers = rude.script(script, reply(200, completion()))
    keys = [limited.good("key", "create", name, "-o", "json") for name in ("a", "b")]
    first, second = (re.findall(r"ork_[^\"]+", key)[0] for key in keys)
    looks: list[dict[str, str]] = [
        {"authorization": f"Bearer {first}", "user-agent": "one"},
        {"authorization": f"bearer {first}", "user-agent": "two"},
        {"authorization": f"BEARER {first}", "x-forwarded-for": "1.2.3.4"},
        {"authorization": f"Bearer  {first}", "x-tenant": "other", "openai-organization": "x"},
        {"api-key": first, "x-outrigger-tier": "hundred"},
    ]
    async with asyncio.timeout(5):  # until the key is in force
        while (await say(limited.mesh, {"authorization": f"Bearer {second}"}, "k")).status == 401:
            pass
    answers = await storm(limited.mesh, 30, lambda number: {**looks[number % len(looks)], **headers})
    assert statuses(answers) == {200: 10, 429: 20}
    assert (await say(limited.mesh, {"authorization": f"Bearer {second}"})).status == 200


async def test_calls_that_nobody_reads_count_too(limited: Governed, rude: RudeProvider, script: str) -> None:
    """Other operations of the API are requests; their failures are given back."""
    headers = in_tier("raw", **rude.script(script, reply(500, {}), reply(200, {"ok": True})))
    answers = [await post(limited.mesh.proxy_port, {}, headers, "/v1/images/generations") for _ in range(4)]
    assert [answer.status for answer in answers] == [500, 200, 200, 429]
    assert answers[1].get("x-ratelimit-limit-requests") == "2"


async def test_a_models_limit_is_everybodys(limited: Governed) -> None:
    """Tiers or none, three a minute."""
    answers = [await say(limited.mesh, {}, model="scarce") for _ in range(2)]
    answers += [await say(limited.mesh, in_tier("both"), model="scarce") for _ in range(2)]
    assert [answer.status for answer in answers] == [200, 200, 200, 429]
    assert "the model scarce" in answers[-1].error()["message"]
    assert answers[2].get("x-ratelimit-limit-requests") == "3"


async def test_lower_tiers_are_shed_first(limited: Governed) -> None:
    """A flood of the lowest leaves room for those above, from their first call on."""
    low = await storm(limited.mesh, 30, lambda _: {}, model="crowded")
    assert statuses(low) == {200: 19, 429: 11}
    refused = next(answer for answer in low if answer.status == 429)
    assert (refused.get("x-outrigger-error"), refused.error()["code"]) == ("shed", "shed")
    assert 1 <= int(refused.get("retry-after") or "") <= 60
    assert (await say(limited.mesh, in_tier("first"), model="crowded")).status == 200
    full = await say(limited.mesh, in_tier("first"), model="crowded")
    assert (full.status, full.get("x-outrigger-error")) == (429, "rate-limit")
    assert re.search(r'outrigger_decisions_total\{[^}]*reason="shed"[^}]*\} 11', limited.mesh.metrics())


@pytest.mark.parametrize(("tier", "says"), [("day", "2000 tokens within 24 h"), ("purse", "a cost of 2.5")])
async def test_a_daily_budget_ends(
    limited: Governed, rude: RudeProvider, script: str, tier: str, says: str
) -> None:
    """What answers used and cost is charged; then nothing passes, and clients are told not to wait."""
    usage = {"prompt_tokens": 900, "completion_tokens": 790, "total_tokens": 1690}
    headers = in_tier(tier, **rude.script(script, reply(200, completion(usage=usage))))
    passed = await say(limited.mesh, headers, model="priced", max_tokens=5)
    assert passed.status == 200
    refused = await say(limited.mesh, headers, model="priced", max_tokens=400)
    assert (refused.status, refused.get("x-outrigger-error")) == (429, "budget")
    assert (refused.error()["type"], refused.error()["code"]) == ("insufficient_quota", "budget_exceeded")
    assert says in refused.error()["message"]
    assert 86_000 < int(refused.get("retry-after") or "") <= 86_400
    assert refused.get("x-should-retry") == "false"
    assert len(rude.seen(script)) == 1


async def test_a_full_model_hands_over(limited: Governed) -> None:
    """From the load on that its rule names; the answer says who gave it."""
    answers = [await say(limited.mesh, {}, model="loaded") for _ in range(6)]
    assert [answer.get("x-outrigger-model") for answer in answers] == ["loaded"] * 4 + ["m"] * 2
    assert statuses(answers) == {200: 6}


async def test_callers_are_told_what_was_clamped(limited: Governed) -> None:
    """By the names of the parameters."""
    changed = await say(limited.mesh, {}, model="clamped", temperature=1)
    assert changed.get("x-outrigger-clamped") == "temperature,max_tokens"
    fitting = await say(limited.mesh, {}, model="clamped", temperature=0.1, max_tokens=5)
    assert fitting.get("x-outrigger-clamped") is None


async def test_limits_change_under_load(limited: Governed) -> None:
    """Lowered below what is used, nothing is negative; deleted, nothing is limited and nothing fails."""
    tier = in_tier("changing")
    assert statuses(await storm(limited.mesh, 20, lambda _: tier)) == {200: 20}
    load = asyncio.create_task(storm(limited.mesh, 200, lambda _: tier))
    await asyncio.to_thread(
        limited.apply, TIER.format(name="changing", limits="requestsPerMinute: 5").removesuffix("---\n")
    )
    assert set(statuses(await load)) <= {200, 429}
    async with asyncio.timeout(5):
        while (answer := await say(limited.mesh, tier)).get("x-ratelimit-limit-requests") != "5":
            pass
    assert (answer.status, answer.get("x-ratelimit-remaining-requests")) == (429, "0")
    load = asyncio.create_task(storm(limited.mesh, 200, lambda _: tier))
    deleted = await asyncio.to_thread(limited.api.delete, "/tiers/changing")
    assert deleted.status_code == 204
    assert set(statuses(await load)) <= {200, 429}
    async with asyncio.timeout(5):
        while (answer := await say(limited.mesh, tier)).status != 200:
            pass
    assert answer.get("x-ratelimit-limit-requests") is None
    assert "Traceback" not in limited.mesh.log()


def test_the_sdk_knows_our_refusal(limited: Governed) -> None:
    """RateLimitError, with the code and the headers that its callers look at."""
    client = openai.OpenAI(
        base_url=limited.mesh.url, api_key="k", max_retries=0, default_headers=in_tier("sdk")
    )
    message: openai.types.chat.ChatCompletionUserMessageParam = {"role": "user", "content": "hi"}
    client.chat.completions.create(model="m", messages=[message])
    with pytest.raises(openai.RateLimitError) as refused:
        client.chat.completions.create(model="m", messages=[message])
    assert refused.value.code == "rate_limit_exceeded"
    assert int(refused.value.response.headers["retry-after"]) >= 1
