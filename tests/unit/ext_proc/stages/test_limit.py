"""Admission and settlement, whatever becomes of the call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import orjson
import pytest

from ext_proc.contract.snapshot import Consumer, Limits, PolicyLayer, Prices, Snapshot, Tier
from ext_proc.exchange import Answer, Answered, Exchange, Reason, ResponseHead
from ext_proc.limits.book import MemoryBook
from ext_proc.limits.claims import Claim, Unavailable, Verdict
from ext_proc.limits.estimates import Estimates
from ext_proc.openai.errors import ErrorCode
from ext_proc.openai.paths import Operation
from ext_proc.openai.recording import StreamRecorder
from ext_proc.openai.responses import Completion
from ext_proc.openai.usage import Usage
from ext_proc.stages.limit import Limit, Meter
from tests.unit.ext_proc.exchanges import CHAT, HELLO, exchange, snapshot

ALL = Limits(10, 10_000, 2)
OK = ResponseHead(200, {})


def limited(limits: Limits | None = ALL, **changes: Any) -> Snapshot:
    """Return a policy whose Tier `gold` has these limits."""
    return snapshot(tiers={"gold": Tier("gold", limits=limits)}, **changes)


class Calls:
    """A book with both stages in front of it."""

    def __init__(self, limits: Limits | None = ALL, **changes: Any) -> None:
        self.policy = limited(limits, **changes)
        self.now = 0
        self.book = MemoryBook(lambda: self.now)
        self.limit = Limit(self.book, Estimates())
        self.meter = Meter(self.book)

    def opened(self, document: Mapping[str, Any] = HELLO, path: str = CHAT) -> Exchange:
        """Return a call of the Tier that has been resolved."""
        found = exchange(self.policy, document, path=path)
        found.tier = "gold"
        found.asked_model = "m"
        found.model = self.policy.models["m"]
        found.policy = found.loaded.policy("m", "gold")
        return found

    async def begin(self, opened: Exchange | None = None) -> tuple[Exchange, Answer | None]:
        """Take a call as far as upstream, or to its refusal."""
        opened = opened or self.opened()
        for stage in (self.meter, self.limit):
            answer = await stage.on_request(opened)
            if answer is not None:
                assert isinstance(answer, Answer)
                return opened, answer
        return opened, None

    def used(self) -> tuple[int, int]:
        """Return how many requests and tokens are counted."""
        found = self.opened()
        requests, tokens = self.book.look(found.loaded.accounts("gold", None, found.model))
        return requests.used if requests else 0, tokens.used if tokens else 0


def answered(usage: Usage | None, *, complete: bool = True) -> Answered:
    """Return an answer that tells `usage`."""
    return Answered(OK, b"{}", Completion(usage, ("stop",), complete))


async def test_without_limits_nobody_asks() -> None:
    """A Tier without limits, no Tier, a mesh without any: nothing is added to the call."""
    for calls in (Calls(None), Calls()):
        opened = calls.opened()
        opened.tier = "other"
        assert await calls.begin(opened) == (opened, None)
        assert opened.metered is None
        assert not opened.wants_head
        assert calls.limit.on_response_head(opened) is None
        calls.limit.on_response(opened, answered(None))
        calls.limit.on_end(opened)
        plain = Answer(200, b"", Reason.SERVED_PIN)
        assert calls.meter.on_answer(opened, plain) is plain


async def test_usage_settles_what_was_reserved_once() -> None:
    """The rest is there again; a second word, and the end, change nothing."""
    calls = Calls()
    opened, _ = await calls.begin()
    assert opened.wants_head
    assert opened.wants_body
    assert calls.used()[1] > 500
    opened.response = OK
    calls.limit.on_response(opened, answered(Usage(5, 7)))
    calls.limit.on_response(opened, answered(Usage(50, 70)))
    calls.limit.on_end(opened)
    calls.limit.on_end(opened)
    assert calls.used() == (1, 12)
    assert [(await calls.begin())[1] for _ in range(2)] == [None, None]


@pytest.mark.parametrize(
    "fails",
    [
        pytest.param(lambda calls, opened: None, id="left before an answer"),
        pytest.param(lambda calls, opened: head(calls, opened, 500), id="an error of the provider's"),
        pytest.param(lambda calls, opened: head(calls, opened, 429), id="too many for the provider"),
        pytest.param(
            lambda calls, opened: calls.limit.on_response(opened, answered(None, complete=False)),
            id="an error with status 200",
        ),
    ],
)
async def test_a_call_that_failed_costs_nothing(fails: Any) -> None:
    """Given back once; what is left never passes the limit."""
    calls = Calls()
    opened, _ = await calls.begin()
    fails(calls, opened)
    calls.limit.on_end(opened)
    calls.limit.on_end(opened)
    assert calls.used() == (0, 0)


def head(calls: Calls, opened: Exchange, status: int) -> None:
    """Let the response's head come."""
    opened.response = ResponseHead(status, {})
    calls.limit.on_response_head(opened)


async def test_what_nobody_can_read_is_charged_as_it_was_estimated() -> None:
    """A 200 whose body was too long or coded; a batch that tells no usage."""
    calls = Calls()
    opened, _ = await calls.begin()
    reserved = calls.used()
    head(calls, opened, 200)
    calls.limit.on_end(opened)
    assert calls.used() == reserved
    batched, _ = await calls.begin()
    calls.limit.on_response(batched, answered(None))
    calls.limit.on_end(batched)
    assert calls.used() == (2, 2 * reserved[1])


def stream(calls: Calls, opened: Exchange, *documents: object) -> None:
    """Let parts of a stream come."""
    head(calls, opened, 200)
    opened.recorder = StreamRecorder(Operation.CHAT, hides_usage=True, max_bytes=100_000)
    for document in documents:
        opened.recorder.feed(b"data: " + orjson.dumps(document) + b"\n\n", end=False)


async def test_a_stream_that_broke_off_is_charged_by_what_came() -> None:
    """A chunk is a token at least; usage that had come is the truth."""
    calls = Calls()
    opened, _ = await calls.begin(calls.opened({**HELLO, "stream": True}))
    assert opened.wants_stream
    said = {"choices": [{"index": 0, "delta": {"content": "hello you"}}]}
    stream(calls, opened, said, said)
    calls.limit.on_end(opened)
    prompt = opened.metered.estimate.prompt if opened.metered else 0
    assert calls.used() == (1, prompt + 5)
    second, _ = await calls.begin(calls.opened({**HELLO, "stream": True}))
    stream(calls, second, said, {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 4}})
    calls.limit.on_end(second)
    assert calls.used() == (2, prompt + 5 + 7)
    third, _ = await calls.begin(calls.opened({**HELLO, "stream": True}))
    stream(calls, third, said)
    calls.limit.on_response(third, answered(None))
    calls.limit.on_end(third)
    assert third.metered is not None
    assert calls.used() == (3, prompt + 5 + 7 + third.metered.estimate.prompt + 3)


async def test_usage_that_a_stream_tells_early_is_not_the_last_word() -> None:
    """Broken off behind it, what came counts, and nothing is learned; with its end mark the usage does."""
    calls = Calls()
    early = {"choices": [{"index": 0, "delta": {}}], "usage": {"prompt_tokens": 10, "completion_tokens": 0}}
    said = {"choices": [{"index": 0, "delta": {"content": "hello you" * 20}}]}
    opened, _ = await calls.begin(calls.opened({**HELLO, "stream": True}))
    estimate = opened.metered.estimate if opened.metered else None
    stream(calls, opened, early, said)
    calls.limit.on_end(opened)
    assert calls.used() == (1, 10 + 45)
    second, _ = await calls.begin(calls.opened({**HELLO, "stream": True}))
    assert second.metered is not None
    assert second.metered.estimate == estimate
    stream(calls, second, early, said)
    assert second.recorder is not None
    second.recorder.feed(b"data: [DONE]\n\n", end=False)
    calls.limit.on_end(second)
    assert calls.used() == (2, 10 + 45 + 10)


@pytest.mark.parametrize(
    ("path", "content_type", "used"),
    [
        pytest.param(CHAT, "text/html; charset=utf-8", 0, id="a page in the place of an answer"),
        pytest.param(CHAT, "application/json", 1, id="an answer"),
        pytest.param("/v1/files", "text/html", 1, id="a page that was asked for"),
    ],
)
async def test_a_page_is_no_answer(path: str, content_type: str, used: int) -> None:
    """Somebody in front of the provider has failed, and says so with status 200."""
    calls = Calls(Limits(requests_per_minute=10))
    opened = calls.opened(path=path)
    decided = await calls.limit.on_head(opened) if path != CHAT else (await calls.begin(opened))[1]
    assert decided is None
    opened.response = ResponseHead(200, {"content-type": content_type})
    calls.limit.on_response_head(opened)
    calls.limit.on_end(opened)
    assert calls.used()[0] == used


async def test_a_leader_that_left_its_flight_is_not_given_back() -> None:
    """Its question is asked once more in its name, and settles it."""
    calls = Calls()
    opened, _ = await calls.begin()
    opened.carried_on = True
    calls.limit.on_end(opened)
    assert calls.used()[0] == 1
    calls.limit.on_response(opened, answered(Usage(1, 1)))
    assert calls.used() == (1, 2)


async def test_a_refusal_says_what_to_do() -> None:
    """429 in OpenAI's shape, the wait, how the accounts stand; what is refused costs nothing."""
    calls = Calls(Limits(1, 10_000))
    await calls.begin()
    refused, answer = await calls.begin()
    assert answer is not None
    assert (answer.status, answer.reason) == (429, Reason.RATE_LIMIT)
    assert refused.metered is not None
    assert refused.metered.refused == (429, answer.headers, answer.body)
    told = dict(answer.headers)
    assert told["retry-after"] == "60"
    assert told["x-outrigger-error"] == "rate-limit"
    assert told["x-ratelimit-remaining-requests"] == "0"
    assert told["x-ratelimit-limit-tokens"] == "10000"
    error = orjson.loads(answer.body)["error"]
    assert (error["type"], error["code"]) == ("requests", ErrorCode.RATE_LIMIT_EXCEEDED)
    calls.limit.on_end(refused)
    assert calls.meter.on_answer(refused, answer) is answer
    assert calls.used()[0] == 1


async def test_places_are_held_to_the_end() -> None:
    """Whatever became of the tokens meanwhile; a stream is watched to know its end."""
    calls = Calls(Limits(concurrency=1))
    opened, _ = await calls.begin(calls.opened({**HELLO, "stream": True}))
    assert opened.wants_stream
    head(calls, opened, 500)
    refused = (await calls.begin())[1]
    assert refused is not None
    assert dict(refused.headers)["retry-after"] == "1"
    calls.limit.on_end(opened)
    assert (await calls.begin())[1] is None


async def test_hits_count_as_requests_where_they_are_to() -> None:
    """Admitted before it is known whether they are hits; a refusal later on takes it back."""
    calls = Calls(Limits(2, 40, count_cached=True))
    hit = calls.opened()
    assert await calls.meter.on_request(hit) is None
    told = dict(calls.meter.on_answer(hit, Answer(200, b"", Reason.SERVED_FROM_CACHE)).headers)
    assert told["x-ratelimit-remaining-requests"] == "1"
    calls.limit.on_end(hit)
    assert calls.used() == (1, 0)
    missed, answer = await calls.begin()
    assert answer is None
    assert calls.used() == (2, 40)
    head(calls, missed, 500)
    calls.limit.on_end(missed)
    assert calls.used() == (1, 0)
    await calls.begin()
    calls.book.settle(_reserved(missed), 0)
    third = calls.opened()
    refused = await calls.meter.on_request(third)
    assert isinstance(refused, Answer)
    assert refused.status == 429


def _reserved(opened: Exchange) -> Any:
    assert opened.metered is not None
    return opened.metered.reserved


async def test_a_refusal_behind_the_count_takes_the_count_back() -> None:
    """Refused calls cost nothing."""
    calls = Calls(Limits(5, 10, count_cached=True))
    await calls.begin()
    answer = (await calls.begin())[1]
    assert answer is not None
    assert calls.used() == (1, 10)


async def test_calls_that_nobody_reads_are_requests() -> None:
    """On the headers alone, for the Tier and the Consumer; what we parse is not counted there."""
    calls = Calls(Limits(1, 10))
    for expected in (None, 429):
        opened = calls.opened(path="/v1/images/generations")
        opened.model = None
        answer = await calls.limit.on_head(opened)
        assert (answer and isinstance(answer, Answer) and answer.status) == expected
    assert await calls.limit.on_head(calls.opened()) is None


async def test_hits_of_other_callers_are_told_how_they_stand() -> None:
    """Though they cost nothing."""
    calls = Calls()
    opened = calls.opened()
    await calls.meter.on_request(opened)
    told = dict(calls.meter.on_answer(opened, Answer(200, b"", Reason.SERVED_FROM_CACHE)).headers)
    assert told["x-ratelimit-remaining-requests"] == "10"
    calls.limit.on_end(opened)
    assert calls.used() == (0, 0)


@pytest.mark.parametrize(("status", "told"), [(200, True), (429, True), (500, False), (400, False)])
async def test_headers_are_told_on_success_and_too_many(status: int, told: bool) -> None:
    """Another failure keeps what the provider says."""
    calls = Calls()
    opened, _ = await calls.begin()
    head(calls, opened, status)
    assert opened.metered is not None
    assert bool(opened.metered.told) is told


class Lost(MemoryBook):
    """A book that cannot be looked at."""

    async def reserve(self, claims: Sequence[Claim], *, refuse_on_loss: bool = False) -> Verdict:
        """Fail where the Policy wants that."""
        if refuse_on_loss:
            raise Unavailable
        return self.decide(claims)


@pytest.mark.parametrize(("setting", "status"), [("refuse", 503), ("local", None)])
async def test_the_policy_says_what_happens_when_nobody_knows(setting: str, status: int | None) -> None:
    """Refused with a word of our own, or admitted here."""
    calls = Calls(policies=(PolicyLayer("p", settings={"limits.on_redis_loss": setting}),))
    calls.limit = Limit(Lost(lambda: 0), Estimates())
    _, answer = await calls.begin()
    assert (answer and answer.status) == status
    if answer is not None:
        assert answer.reason is Reason.LIMITS_UNAVAILABLE


async def test_a_refresh_is_a_call_of_its_own() -> None:
    """It is admitted anew, whatever the call holds that was answered."""
    calls = Calls(Limits(1))
    opened, _ = await calls.begin()
    again = replace(opened)
    answer = await calls.limit.admit_anew(again)
    assert isinstance(answer, Answer)
    assert again.metered is not opened.metered
    unlimited = exchange(snapshot())
    assert await calls.limit.admit_anew(unlimited) is None


async def test_learned_figures_are_the_models_own() -> None:
    """An alias teaches the Model."""
    calls = Calls(Limits(tokens_per_minute=10**6))
    for _ in range(8):
        opened, _ = await calls.begin()
        calls.limit.on_response(opened, answered(Usage(10, 10)))
    opened, _ = await calls.begin()
    assert opened.metered is not None
    assert (opened.metered.estimate.prompt, opened.metered.estimate.output) == (10, 10)


async def test_a_consumer_is_limited_by_its_own_limits_too() -> None:
    """In addition to its Tier's."""
    calls = Calls(Limits(5), consumers={"a": Consumer("a", "t", "gold", Limits(1))})
    for expected in (None, 429):
        opened = calls.opened()
        opened.consumer = calls.policy.consumers["a"]
        answer = (await calls.begin(opened))[1]
        assert (answer and answer.status) == expected


async def test_a_budget_is_charged_with_what_the_call_cost() -> None:
    """By the Model's prices; a stream that broke off by what came of it."""
    calls = Calls(Limits(cost_per_day=0.002))
    model = replace(calls.policy.models["m"], prices=Prices(1.0, 2.0))
    calls.policy = replace(calls.policy, models={"m": model})
    opened, _ = await calls.begin()
    assert opened.wants_body
    calls.limit.on_response(opened, answered(Usage(100, 300)))
    account = opened.metered.accounts[0] if opened.metered else None
    assert account is not None
    assert calls.book.load(account).day == 0.35
    broken, answer = await calls.begin(calls.opened({**HELLO, "stream": True, "max_tokens": 5}))
    assert answer is None
    stream(calls, broken, {"choices": [{"index": 0, "delta": {"content": "hello you"}}]})
    calls.limit.on_end(broken)
    prompt = broken.metered.estimate.prompt if broken.metered else 0
    assert calls.book.load(account).day == (700 + prompt + 2 * 3) / 2_000
    refused = (await calls.begin(calls.opened({**HELLO, "max_tokens": 900})))[1]
    assert refused is not None
    assert (refused.reason, dict(refused.headers)["retry-after"]) == (Reason.BUDGET, "86400")


async def test_a_budget_without_prices_costs_nothing() -> None:
    """What nobody priced cannot be charged."""
    calls = Calls(Limits(cost_per_day=0.000001))
    for _ in range(3):
        opened, answer = await calls.begin()
        assert answer is None
        calls.limit.on_response(opened, answered(Usage(100, 300)))


async def test_lower_tiers_are_shed_first() -> None:
    """On a Model's limit, which is everybody's: they leave room for those above."""
    calls = Calls(None, models={"m": replace(snapshot().models["m"], limits=Limits(20))})
    tiers = {"gold": Tier("gold", priority=10), "free": Tier("free", priority=1)}
    calls.policy = replace(calls.policy, tiers=tiers)
    found: dict[str, list[Answer | None]] = {"free": [], "gold": []}
    for tier in ["free"] * 21 + ["gold"] * 2:
        opened = calls.opened()
        opened.tier = tier
        found[tier].append((await calls.begin(opened))[1])
    refused = [answer for answer in found["free"] if answer is not None]
    assert refused
    assert refused[0].reason is Reason.SHED
    assert found["gold"][0] is None
