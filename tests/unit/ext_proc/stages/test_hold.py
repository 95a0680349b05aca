"""Calls that wait for a provider, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial, wraps
from typing import Any

import orjson
import pytest

from ext_proc.candidates import Candidate
from ext_proc.contract.snapshot import Backend, Limits, Model, PolicyLayer, Quota, Snapshot, Tier, Version
from ext_proc.exchange import Answer, Answered, Exchange, Forward, Reason, ResponseHead
from ext_proc.limits.book import MemoryBook
from ext_proc.limits.estimates import Estimates
from ext_proc.openai.paths import Operation
from ext_proc.openai.recording import StreamRecorder
from ext_proc.openai.responses import Completion
from ext_proc.openai.usage import Usage
from ext_proc.providers.cooling import Cooling
from ext_proc.providers.pacing import Spread
from ext_proc.providers.quota import Ask, Draft, MemoryQuotas, Wait
from ext_proc.providers.watch import Nobody, Watch
from ext_proc.stages import hold as stage
from ext_proc.stages.hold import Hold
from ext_proc.stages.limit import Limit, Meter
from tests.bench.crowd import Provider, Seen, Sidecar, crowd, policy
from tests.harness.virtual_time import run_virtually
from tests.unit.ext_proc.exchanges import HELLO, exchange, snapshot

Scenario = Callable[..., Coroutine[Any, Any, None]]


def virtually(scenario: Scenario) -> Callable[..., None]:
    """Run a test in virtual time."""

    @wraps(scenario)
    def run(*args: Any, **kwargs: Any) -> None:
        run_virtually(scenario(*args, **kwargs))

    return run


class Calls:
    """A stage before the Backends `b` and `c`, of which only `b` has a quota."""

    def __init__(self, quota: Quota = Quota(), hold_ms: int = 10_000, **changes: Any) -> None:  # noqa: B008
        self.policy: Snapshot = snapshot(
            backends={"b": Backend("b", "http://x/v1", quota=quota), "c": Backend("c", "http://y/v1")},
            policies=(PolicyLayer("p", settings={"hold.max_ms": hold_ms}),),
            **changes,
        )
        clock = asyncio.get_running_loop().time
        self.clock = clock
        self.watch = Watch(Cooling(lambda: 0.0), Spread(), Nobody(), clock, clock)
        self.quotas = MemoryQuotas(lambda: int(clock() * 1e6))
        self.estimates = Estimates()
        self.hold = Hold(self.watch, self.quotas, self.estimates, clock)
        self.parked = 0

    def opened(self, tier: str = "", *, fallback: bool = False, **fields: Any) -> Exchange:
        """Return a call whose version is assigned."""
        found = exchange(self.policy, {**HELLO, "max_tokens": 50, **fields})
        found.tier, found.asked_model = tier, "m"
        found.model = self.policy.models["m"]
        found.version = found.model.versions[0]
        found.backend = self.policy.backends["b"]
        found.policy = found.loaded.policy("m", tier)
        if fallback:
            other = Model("other", (Version("v9", "c", "other"),))
            found.candidates = (
                Candidate(found.model, found.version, found.backend),
                Candidate(other, other.versions[0], self.policy.backends["c"]),
            )
        found.ask_for_time = self.asked_for_time
        return found

    async def asked_for_time(self) -> None:
        """Count it."""
        self.parked += 1

    async def call(self, opened: Exchange | None = None) -> Answer | None:
        """Take a call as far as the stage lets it; one that it refuses ends."""
        opened = opened or self.opened()
        answer = await self.hold.on_request(opened)
        if answer is None:
            opened.forwarded = Forward("r")
            return None
        assert isinstance(answer, Answer)
        self.hold.on_end(opened)
        return answer

    def answer(self, opened: Exchange, status: int = 200, usage: Usage | None = None) -> None:
        """Let the provider's answer come to its end."""
        opened.response = ResponseHead(status, {})
        self.hold.on_response_head(opened)
        if status == 200:
            completion = Completion(usage, ("stop",), complete=True)
            self.hold.on_response(opened, Answered(opened.response, b"{}", completion))
        self.hold.on_end(opened)

    def refused(self, wait_s: str | None = None, status: int = 429, key: str = "") -> None:
        """Let the provider of `b` refuse a call."""
        headers = {"retry-after": wait_s} if wait_s else {}
        self.watch.observe_attempt("b", status, headers, key[:16])

    def with_key(self, digit: str) -> Exchange:
        """Return a call with a key of the caller's own."""
        opened = self.opened()
        opened.tenant = f"key:{digit * 64}"
        return opened


def retry_after(answer: Answer | None) -> str:
    """Return what a refusal tells."""
    assert answer is not None
    assert answer.status == 429
    return dict(answer.headers)["retry-after"]


@virtually
async def test_where_nothing_is_known_nothing_is_done() -> None:
    """The call is as it was."""
    calls = Calls()
    opened = calls.opened()
    assert await calls.call(opened) is None
    assert not opened.wants_head
    assert opened.draft is None
    calls.answer(opened)
    opened.backend = None
    assert await calls.hold.on_request(opened) is None


@virtually
async def test_a_call_to_a_provider_that_cools_is_held_until_it_may_be_asked() -> None:
    """Envoy hears that it takes longer, and the caller gets an answer."""
    calls = Calls()
    calls.refused("3")
    assert await calls.call() is None
    assert calls.clock() == pytest.approx(3.0, abs=0.03)
    assert calls.parked == 1


@virtually
async def test_a_refusal_of_one_key_holds_nobody_elses() -> None:
    """Its own calls wait in line, others pass it; out of service is for all."""
    calls = Calls()
    calls.refused("3", key="1" * 16)
    held = asyncio.create_task(calls.call(calls.with_key("1")))
    await asyncio.sleep(0.1)
    assert await calls.call(calls.with_key("2")) is None
    assert await calls.call() is None
    assert calls.clock() == pytest.approx(0.1)
    assert await held is None
    assert calls.clock() == pytest.approx(3.0, abs=0.03)
    calls.refused("60", 503, key="2" * 16)
    assert retry_after(await calls.call(calls.with_key("3"))) == "60"


@virtually
async def test_a_key_that_is_refused_while_it_waits_for_a_place_holds_nobody_behind_it() -> None:
    """It goes on waiting beside the line, by what is left of its patience."""
    calls = Calls(Quota(None, None, 1))
    first = calls.opened()
    assert await calls.call(first) is None
    held = asyncio.create_task(calls.call(calls.with_key("1")))
    behind = asyncio.create_task(calls.call(calls.with_key("2")))
    await asyncio.sleep(1.0)
    calls.refused("4", key="1" * 16)
    calls.answer(first)
    assert await behind is None
    assert calls.clock() == pytest.approx(1.0, abs=0.03)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(asyncio.shield(held), 3.9)
    held.cancel()


@virtually
async def test_a_call_without_quota_is_not_the_first_after_a_pause() -> None:
    """The one that goes has the Backend to itself, also after others found no quota."""
    calls = Calls(Quota(None, None, 1))
    first = calls.opened()
    assert await calls.call(first) is None
    calls.refused("1")
    waiting = [asyncio.create_task(calls.call()) for _ in range(2)]
    await asyncio.sleep(1.05)
    calls.answer(first)
    await asyncio.wait(waiting, timeout=0.01)
    assert [one.done() for one in waiting] == [True, False]
    for one in waiting:
        one.cancel()


@virtually
async def test_a_stand_ins_call_is_drawn_from_its_own_quota() -> None:
    """Envoy has asked it, without us: what it cost is a debt there, and nothing of the first one's tokens."""
    calls = Calls(Quota(2, 10_000))
    opened = calls.opened(fallback=True)
    # The one with the quota stands in for the other.
    opened.candidates = opened.candidates[::-1]
    opened.backend = calls.policy.backends["c"]
    assert await calls.call(opened) is None
    assert (opened.wants_head, opened.wants_body, opened.draft) == (True, True, None)
    opened.stand_in(1)
    calls.answer(opened, usage=Usage(300, 400))
    assert calls.quotas.used("b") == (1, 700)
    back = calls.opened(fallback=True)
    assert await calls.call(back) is None
    back.stand_in(1)
    calls.answer(back, usage=Usage(1, 1))
    assert calls.quotas.used("b") == (2, 700)
    assert calls.hold.under_way("b") == 0


@pytest.mark.parametrize(("failed", "tokens"), [(True, 0), (False, None)], ids=["failed", "left meanwhile"])
def test_a_call_in_company_that_went_up_has_cost_a_request(failed: bool, tokens: int | None) -> None:
    """Whether it failed for good or one of those who shared it has left."""

    async def scenario() -> None:
        calls = Calls(Quota(2, 1000))
        opened = calls.opened()
        assert await calls.hold.on_request(opened) is None
        assert opened.draft is not None
        opened.shared, opened.shared_failed = True, failed
        calls.hold.on_end(opened)
        assert calls.quotas.used("b") == (1, opened.draft.ask.tokens if tokens is None else tokens)

    run_virtually(scenario())


@virtually
async def test_beyond_hold_max_it_is_refused_at_once() -> None:
    """With the time at which it would be admitted, rounded up."""
    calls = Calls()
    calls.refused("360")
    await asyncio.sleep(0.5)
    answer = await calls.call()
    assert calls.clock() == 0.5
    assert retry_after(answer) == "360"
    assert answer is not None
    assert answer.reason is Reason.COOLING
    assert ("x-outrigger-error", "cooling") in answer.headers
    body = orjson.loads(answer.body)["error"]
    assert (body["code"], body["param"]) == ("rate_limit_exceeded", None)
    assert calls.parked == 0


@virtually
async def test_whoever_was_held_is_refused_when_the_provider_asks_for_longer() -> None:
    """At once, not when its patience ends."""
    calls = Calls()
    calls.refused("3")
    held = asyncio.create_task(calls.call())
    await asyncio.sleep(1.0)
    calls.refused("60")
    assert retry_after(await held) == "60"
    assert calls.clock() == 1.0


@virtually
async def test_a_fallback_answers_while_the_first_cools() -> None:
    """No call waits as long as somebody else may answer; what cools is passed over."""
    calls = Calls()
    calls.refused("3")
    opened = calls.opened(fallback=True)
    assert await calls.call(opened) is None
    assert calls.clock() == 0.0
    assert opened.backend is not None
    assert opened.backend.name == "c"
    assert opened.model_name == "other"


@virtually
async def test_where_all_cool_the_first_to_be_ready_is_waited_for() -> None:
    """Whichever that is."""
    calls = Calls()
    calls.refused("7")
    calls.watch.observe_attempt("c", 503, {"retry-after": "4"})
    opened = calls.opened(fallback=True)
    assert await calls.call(opened) is None
    assert calls.clock() == pytest.approx(4.0, abs=0.03)
    assert opened.model_name == "other"


@virtually
async def test_a_fallback_answers_where_the_quota_is_used_up() -> None:
    """Before anybody is refused."""
    calls = Calls(Quota(1))
    assert await calls.call() is None
    opened = calls.opened(fallback=True)
    assert await calls.call(opened) is None
    assert opened.model_name == "other"


@virtually
async def test_a_call_in_line_goes_elsewhere_when_its_provider_begins_to_cool() -> None:
    """It waited for a place; now somebody else is quicker."""
    calls = Calls(Quota(None, None, 1))
    assert await calls.call() is None
    opened = calls.opened(fallback=True)
    held = asyncio.create_task(calls.call(opened))
    await asyncio.sleep(1.0)
    calls.refused("5")
    assert await held is None
    assert calls.clock() == 1.0
    assert opened.model_name == "other"


@virtually
async def test_fair_order_is_priority_then_arrival() -> None:
    """One place, and three who wait for it."""
    tiers = {"gold": Tier("gold", priority=10), "free": Tier("free")}
    calls = Calls(Quota(None, None, 1), tiers=tiers)
    first = calls.opened()
    assert await calls.call(first) is None
    went: list[str] = []

    async def one(name: str, tier: str) -> None:
        opened = calls.opened(tier)
        assert await calls.call(opened) is None
        went.append(name)
        await asyncio.sleep(1.0)
        calls.answer(opened)

    waiting = [asyncio.create_task(one(*who)) for who in (("a", "free"), ("b", ""), ("c", "gold"))]
    await asyncio.sleep(60.0)  # a place is waited for, whatever `hold.max` says
    calls.answer(first)
    await asyncio.gather(*waiting)
    assert went == ["c", "a", "b"]
    assert calls.clock() == pytest.approx(63.0, abs=0.05)


@virtually
async def test_a_held_client_that_leaves_frees_its_place() -> None:
    """Nothing of the quota is gone, and the next one goes in its turn."""
    calls = Calls(Quota(None, None, 1))
    first = calls.opened()
    assert await calls.call(first) is None
    leaving, staying = (asyncio.create_task(calls.call()) for _ in range(2))
    await asyncio.sleep(1.0)
    leaving.cancel()
    await asyncio.gather(leaving, return_exceptions=True)
    calls.answer(first)
    assert await staying is None


@virtually
async def test_whoever_comes_while_a_line_empties_is_told_of_what_comes_free() -> None:
    """Envoy hears that it takes longer, and meanwhile the line has gone."""
    calls = Calls(Quota(None, None, 1))
    first, second, slow = (calls.opened() for _ in range(3))
    slow.ask_for_time = partial(asyncio.sleep, 2.0)
    assert await calls.call(first) is None
    waiting = [asyncio.create_task(calls.call(one)) for one in (second, slow)]
    await asyncio.sleep(1.0)
    calls.answer(first)
    await asyncio.sleep(1.1)
    calls.answer(second)
    assert await asyncio.gather(*waiting) == [None, None]
    assert calls.clock() == pytest.approx(2.1, abs=0.001)


@virtually
async def test_what_does_not_fit_is_refused_with_when_it_would() -> None:
    """Two a minute: the third is told to come back when the first is a minute old."""
    calls = Calls(Quota(2))
    assert await calls.call() is None
    await asyncio.sleep(20.0)
    assert await calls.call() is None
    answer = await calls.call()
    assert retry_after(answer) == "41"
    assert answer is not None
    assert answer.reason is Reason.QUOTA
    await asyncio.sleep(31.0)
    assert await calls.call() is None  # held: the rest is within its patience
    assert calls.clock() == pytest.approx(60.25, abs=0.03)


@virtually
async def test_tokens_that_calls_under_way_will_not_use_are_waited_for() -> None:
    """They have drawn all; their answers give most of it back."""
    calls = Calls(Quota(None, 150))
    first, second = calls.opened(), calls.opened()
    assert await calls.call(first) is None
    assert await calls.call(second) is None
    held = asyncio.create_task(calls.call())
    await asyncio.sleep(2.0)
    calls.answer(first, usage=Usage(5, 5))
    assert await held is None
    assert calls.clock() == 2.0


@pytest.mark.parametrize(
    ("ends", "left"),
    [
        pytest.param(lambda calls, opened: calls.answer(opened, usage=Usage(10, 10)), 980, id="usage"),
        pytest.param(lambda calls, opened: calls.answer(opened, 500), 1000, id="failed"),
        pytest.param(lambda calls, opened: calls.answer(opened), None, id="no usage"),
        pytest.param(lambda calls, opened: calls.hold.on_end(opened), None, id="left meanwhile"),
    ],
)
def test_what_a_call_costs_in_the_end(ends: Callable[[Calls, Exchange], None], left: int | None) -> None:
    """Its usage; nothing of the tokens when it failed; else what was expected. A request in any case."""

    async def scenario() -> None:
        calls = Calls(Quota(10, 1000))
        opened = calls.opened()
        assert await calls.call(opened) is None
        assert opened.wants_body
        assert opened.draft is not None
        expected = opened.draft.ask.tokens
        ends(calls, opened)
        calls.hold.on_end(opened)
        remaining = left if left is not None else 1000 - expected
        quota = calls.policy.backends["b"].quota
        assert isinstance(calls.quotas.decide(Ask("b", quota, remaining, 9)), Draft)
        assert isinstance(calls.quotas.decide(Ask("b", quota, 1, 0)), Wait)
        assert isinstance(calls.quotas.decide(Ask("b", quota, 0, 1)), Wait)

    run_virtually(scenario())


@virtually
async def test_a_stream_that_broke_off_counts_what_came() -> None:
    """Usage that it told at its beginning is no last word; with the end mark it is."""
    calls = Calls(Quota(10, 10_000))
    early = b'data: {"choices": [], "usage": {"prompt_tokens": 10, "completion_tokens": 0}}\n\n'
    said = b'data: {"choices": [{"index": 0, "delta": {"content": "%s"}}]}\n\n' % (b"hello" * 40)
    for parts, used in (((early, said), 60), ((early, said, b"data: [DONE]\n\n"), 70)):
        opened = calls.opened(stream=True)
        assert await calls.call(opened) is None
        opened.recorder = StreamRecorder(Operation.CHAT, hides_usage=True, max_bytes=10_000)
        for part in parts:
            opened.recorder.feed(part, end=False)
        calls.hold.on_end(opened)
        assert calls.quotas.used("b")[1] == used


@virtually
async def test_what_never_went_up_costs_nothing() -> None:
    """Another stage answered after it had its turn."""
    calls = Calls(Quota(1, 1000, 1))
    opened = calls.opened()
    assert await calls.hold.on_request(opened) is None
    calls.hold.on_end(opened)
    assert await calls.call() is None


@virtually
async def test_a_refused_call_gives_its_reservation_back() -> None:
    """The Tier's, which was made before."""
    calls = Calls(tiers={"gold": Tier("gold", limits=Limits(1, 100_000, 1))})
    book = MemoryBook(lambda: int(calls.clock() * 1e6))
    meter, limit = Meter(book), Limit(book, calls.estimates)
    calls.refused("360")
    for _ in range(5):
        opened = calls.opened("gold")
        await meter.on_request(opened)
        assert await limit.on_request(opened) is None
        assert await calls.call(opened) is not None
        limit.on_end(opened)
        assert opened.metered is not None
        assert opened.metered.refused is not None


@virtually
async def test_calls_whose_bodies_nobody_reads_are_held_as_requests() -> None:
    """They go to the default Backend, which may cool and has a quota as any other."""
    calls = Calls(Quota(1, 10))
    found = [exchange(calls.policy, path="/v1/images/generations") for _ in range(2)]
    answers = [await calls.hold.on_head(one) for one in found]
    assert answers[0] is None
    assert isinstance(answers[1], Answer)
    assert await calls.hold.on_head(calls.opened()) is None


@virtually
async def test_no_more_than_so_many_are_held(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever comes then is refused at once."""
    monkeypatch.setattr(stage, "HELD_AT_MOST", 2)
    calls = Calls()
    calls.refused("5")
    held = [asyncio.create_task(calls.call()) for _ in range(2)]
    await asyncio.sleep(0.1)
    assert retry_after(await calls.call()) == "5"
    assert await asyncio.gather(*held) == [None, None]


@virtually
async def test_it_can_be_closed() -> None:
    """Nobody waits any more."""
    calls = Calls()
    calls.refused("5")
    held: Awaitable[Answer | None] = asyncio.create_task(calls.call())
    await asyncio.sleep(0.1)
    await calls.hold.close()
    assert isinstance((await asyncio.gather(held, return_exceptions=True))[0], asyncio.CancelledError)


@pytest.mark.parametrize("sidecars", [1, 8])
def test_an_eager_crowd_and_the_providers_quota(sidecars: int) -> None:
    """For a minute nobody is refused, by the provider or by us, and the quota is used."""

    async def scenario() -> tuple[Provider, Seen]:
        clock = asyncio.get_running_loop().time
        quota = Quota(300, 60_000)
        provider, shared = Provider(clock, quota), MemoryQuotas(lambda: int(clock() * 1e6))
        several = [Sidecar(policy(quota), clock, shared) for _ in range(sidecars)]
        return provider, await crowd(several, provider, 20, 65.0)

    provider, seen = run_virtually(scenario())
    assert set(seen.statuses) == {200}
    assert provider.refused == 0
    assert len(provider.served) >= 0.97 * 300


@virtually
async def test_an_outage() -> None:
    """A provider that is down for half a minute sees few calls, and all of them soon after it."""
    clock = asyncio.get_running_loop().time
    quota = Quota()
    provider = Provider(clock, quota, down=(5.0, 35.0))
    seen = await crowd([Sidecar(policy(quota), clock)], provider, 20, 45.0)
    assert provider.calls <= 1.1 * seen.asked
    outage_calls = provider.calls - len(provider.served)
    assert outage_calls <= 20 + 30
    back = [at for at in provider.served if at >= 35.0]
    assert back[0] - 35.0 <= 4.0
    assert sum(at <= 40.0 for at in back) >= 20
