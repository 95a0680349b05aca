"""Who leads, who follows, who keeps to itself, and what becomes of a flight at each end of its leader."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import orjson
import pytest

from ext_proc.answers import Clocks
from ext_proc.contract.policies import CachePolicy, CoalescePolicy, Policy
from ext_proc.contract.snapshot import Consumer, Purge
from ext_proc.exchange import Answer, Answered, CacheStatus, Exchange, Forward, Reason, ResponseHead
from ext_proc.flights import Flight, Flights, Follow, Landed, Lead
from ext_proc.openai.paths import Operation
from ext_proc.openai.responses import parse_completion
from ext_proc.question import question_key
from ext_proc.stages.coalesce import Coalesce
from tests.unit.ext_proc.exchanges import HELLO, exchange
from tests.unit.ext_proc.test_flights import event, settled

SHARING = Policy(coalesce=CoalescePolicy(enabled=True, max_followers=3))
STREAM: dict[str, Any] = {**HELLO, "stream": True}
WHOLE = orjson.dumps({"choices": [{"index": 0, "message": {"content": "hi"}, "finish_reason": "stop"}]})
KEY = {"authorization": "Bearer k"}
EPOCH_S = 1000.0


class Carried:
    """A continuation that only writes down what it is to carry on."""

    def __init__(self) -> None:
        self.flights: list[Flight] = []

    def take_over(self, flight: Flight) -> None:
        """Write it down."""
        self.flights.append(flight)


class Others:
    """Other processors: they have the lead or not, and answer when they are told to."""

    def __init__(self, leads: str) -> None:
        self.ended: list[Landed | None] = []
        self.asked: list[bytes] = []
        self.answer: asyncio.Future[Landed | None] = asyncio.get_running_loop().create_future()
        self._taken: Lead | Follow | None = None
        if leads == "ours":
            self._taken = Lead(self.ended.append)
        elif leads == "theirs":
            self._taken = Follow(self.hear)

    async def lead(self, key: bytes) -> Lead | Follow | None:
        """Return what a test says."""
        self.asked.append(key)
        await asyncio.sleep(0)
        return self._taken

    async def hear(self, within_s: float) -> Landed | None:
        """Return what a test says."""
        return await self.answer


class Sky:
    """The stage with its flights."""

    def __init__(self, others: Others | None = None) -> None:
        self.flights = Flights()
        self.carried = Carried()
        self.now_s = 100.0
        self.purges: list[Purge] = []
        self.stage = Coalesce(
            self.flights,
            self.carried,
            "origin_0",
            clocks=lambda: Clocks(self.now_s + EPOCH_S, self.now_s),
            elsewhere=others,
            purges=lambda: self.purges,
        )

    def asked(self, document: dict[str, Any] | None = None, **fields: Any) -> Exchange:
        """Return an exchange that comes to the stage."""
        one = exchange(document=document, headers=fields.pop("headers", None))
        one.policy = SHARING
        one.model = one.loaded.snapshot.models["m"]
        one.version = one.model.versions[0]
        one.backend = one.loaded.snapshot.backends["b"]
        for name, value in fields.items():
            setattr(one, name, value)
        return one

    async def led(self, document: dict[str, Any] | None = None) -> Exchange:
        """Return a leader that has been sent."""
        leader = self.asked(document)
        assert await self.stage.on_request(leader) is None
        assert leader.flight
        leader.forwarded = Forward("route")
        return leader

    async def waiting(self, document: dict[str, Any] | None = None) -> asyncio.Task[Answer | Forward | None]:
        """Return the decision on one that waits for the leader's answer."""
        return (await self.parked(document))[1]

    async def parked(
        self, document: dict[str, Any] | None = None
    ) -> tuple[Exchange, asyncio.Task[Answer | Forward | None]]:
        """Return one that waits for the leader's answer, and the decision on it."""
        one = self.asked(document)
        task = asyncio.create_task(self.stage.on_request(one))
        await settled()
        assert not task.done()
        return one, task

    def answer(self, leader: Exchange, body: bytes = WHOLE, status: int = 200) -> None:
        """Let the leader's answer come."""
        headers = {"content-type": "application/json", "x-outrigger-backend": "b", "set-cookie": "a=b"}
        leader.response = ResponseHead(status, headers)
        self.stage.on_response_head(leader)
        completion = parse_completion(Operation.CHAT, body)
        self.stage.on_response(leader, Answered(leader.response, body, completion))


async def test_the_answer_of_the_leader_is_everybodys() -> None:
    """As JSON or as a stream, marked, with the leader's Backend and nothing else of its call."""
    sky = Sky()
    leader = await sky.led()
    as_json, as_stream = await sky.waiting(), await sky.waiting(STREAM)
    sky.answer(leader)
    first, second = await as_json, await as_stream
    assert isinstance(first, Answer)
    assert isinstance(second, Answer)
    assert (first.body, first.reason) == (WHOLE, Reason.SERVED_FROM_FLIGHT)
    assert dict(first.headers) == {
        "content-type": "application/json",
        "x-outrigger-backend": "b",
        "x-outrigger-model": "m",
        "x-outrigger-version": "v1",
        "x-outrigger-cache": "coalesced",
    }
    assert ("cache", "coalesced") in first.metadata
    assert second.body.endswith(b"data: [DONE]\n\n")
    assert len(sky.flights) == 0


async def test_a_follower_of_a_stream_is_sent_to_the_origin() -> None:
    """By ticket, without a key and without its body; what it needs to go on alone stays here."""
    sky = Sky()
    leader = await sky.led(STREAM)
    follower = sky.asked(STREAM, headers={**KEY, "x-a": "b"})
    sent = await sky.stage.on_request(follower)
    assert isinstance(sent, Forward)
    assert (sent.route, sent.body, sent.remove) == ("origin", b"", ("authorization", "api-key"))
    named = dict(sent.add)
    assert named["x-outrigger-origin"] == "origin_0"
    number, ticket = named["x-outrigger-flight"].split(".")
    flight = sky.flights.numbered(int(number))
    assert flight is not None
    assert flight.leader is leader
    boarded = sky.flights.board(flight, int(ticket))
    assert boarded is not None
    assert (boarded.head.headers["authorization"], boarded.remove, boarded.usage) == ("Bearer k", (), False)
    assert follower.cache_status is CacheStatus.COALESCED


async def test_a_consumers_key_is_never_sent_on() -> None:
    """Not even when the follower has to make a call of its own."""
    sky = Sky()
    await sky.led(STREAM)
    asking = {**STREAM, "stream_options": {"include_usage": True}}
    sent = await sky.stage.on_request(sky.asked(asking, consumer=Consumer("a", "t")))
    assert isinstance(sent, Forward)
    number, ticket = dict(sent.add)["x-outrigger-flight"].split(".")
    flight = sky.flights.numbered(int(number))
    assert flight is not None
    boarded = sky.flights.board(flight, int(ticket))
    assert boarded is not None
    assert (boarded.remove, boarded.usage) == (("authorization", "api-key"), True)


@pytest.mark.parametrize(
    "other",
    [
        pytest.param({"policy": Policy()}, id="not enabled"),
        pytest.param({"document": {**HELLO, "seed": 7}}, id="another question"),
        pytest.param({"tenant": "tenant:other"}, id="another tenant"),
        pytest.param({"headers": {"x-outrigger-cache": "no-store"}}, id="no-store"),
        pytest.param({"headers": {"x-outrigger-cache": "refresh"}}, id="refresh"),
        pytest.param(
            {
                "document": {**HELLO, "temperature": 1.5},
                "policy": replace(SHARING, cache=CachePolicy(max_temperature=1)),
            },
            id="hot",
        ),
    ],
)
async def test_who_asks_something_else_goes_up_at_once(other: dict[str, Any]) -> None:
    """It waits for nobody."""
    sky = Sky()
    await sky.led()
    async with asyncio.timeout(1):
        assert await sky.stage.on_request(sky.asked(**other)) is None


async def test_beyond_max_followers_requests_go_up_alone() -> None:
    """Those on the stream count like those who wait."""
    sky = Sky()
    await sky.led(STREAM)
    for _ in range(2):
        assert isinstance(await sky.stage.on_request(sky.asked(STREAM)), Forward)
    waiting = await sky.waiting()
    for document in (HELLO, STREAM):
        alone = sky.asked(document)
        assert await sky.stage.on_request(alone) is None
        assert alone.flight == 0
    waiting.cancel()


async def test_a_stream_whose_beginning_is_forgotten_has_no_new_followers() -> None:
    """They go up by themselves."""
    sky = Sky()
    leader = await sky.led(STREAM)
    for _ in range(17):
        sky.stage.on_chunk(leader, event("x" * 1024 * 1024), end=False)
    assert await sky.stage.on_request(sky.asked(STREAM)) is None


@pytest.mark.parametrize(
    ("status", "body"),
    [(429, b"{}"), (500, b"<html>"), (200, b'{"error": {"message": "x"}}'), (200, b"<html>"), (200, b"")],
)
async def test_a_failure_is_the_leaders_own(status: int, body: bytes) -> None:
    """The others go on alone."""
    sky = Sky()
    leader = await sky.led()
    waiting = await sky.waiting()
    sky.answer(leader, body, status)
    assert await waiting is None
    sky.stage.on_end(leader)
    assert (sky.carried.flights, len(sky.flights)) == ([], 0)


async def test_an_answer_that_is_not_read_is_the_leaders_own() -> None:
    """Coded, or too long."""
    sky = Sky()
    leader = await sky.led()
    waiting = await sky.waiting()
    sky.stage.on_unread(leader)
    assert await waiting is None


async def test_a_leader_that_leaves_is_replaced_when_somebody_waits() -> None:
    """And only then."""
    sky = Sky()
    nobody = await sky.led({**HELLO, "seed": 1})
    sky.stage.on_end(nobody)
    assert (sky.carried.flights, len(sky.flights)) == ([], 0)
    leader = await sky.led()
    waiting = await sky.waiting()
    sky.stage.on_end(leader)
    assert [flight.leader for flight in sky.carried.flights] == [leader]
    assert leader.carried_on
    assert not waiting.done()
    waiting.cancel()


@pytest.mark.parametrize("document", [HELLO, STREAM], ids=["json", "stream"])
async def test_a_leader_that_was_never_sent_hands_on(document: dict[str, Any]) -> None:
    """It was refused, or left while it waited: the first of the others goes up, the rest gets its answer."""
    sky = Sky()
    leader = await sky.led()
    leader.forwarded = None
    (next_one, promoted), second, third = (
        await sky.parked(document),
        await sky.waiting(),
        await sky.waiting(STREAM),
    )
    number = leader.flight
    sky.stage.on_end(leader)
    assert await promoted is None
    assert (next_one.flight, next_one.wants_body, next_one.wants_stream) == (number, True, document is STREAM)
    assert not second.done()
    assert not third.done()
    sky.answer(leader, b"{}", 500)  # it leads nothing any more
    next_one.forwarded = Forward("route")
    sky.answer(next_one)
    sky.stage.on_end(next_one)
    for task in (second, third):
        answer = await task
        assert isinstance(answer, Answer)
    assert (sky.carried.flights, len(sky.flights)) == ([], 0)


async def test_the_lead_goes_from_one_to_the_next_until_one_is_sent() -> None:
    """And without anybody left the flight ends."""
    sky = Sky()
    leader = await sky.led()
    leader.forwarded = None
    parked = [await sky.parked() for _ in range(3)]
    for one, task in parked:
        sky.stage.on_end(leader)
        assert await task is None
        leader = one
    sky.stage.on_end(leader)
    assert (sky.carried.flights, len(sky.flights)) == ([], 0)


async def test_a_promoted_leader_that_leaves_is_carried_on() -> None:
    """Once it is sent, like any other."""
    sky = Sky()
    leader = await sky.led()
    leader.forwarded = None
    (next_one, promoted), waiting = await sky.parked(), await sky.waiting()
    sky.stage.on_end(leader)
    await promoted
    next_one.forwarded = Forward("route")
    sky.stage.on_end(next_one)
    assert [flight.leader for flight in sky.carried.flights] == [next_one]
    assert not waiting.done()
    waiting.cancel()


async def test_followers_of_a_stream_stay_when_one_who_waits_takes_its_lead() -> None:
    """They are told its answer as a stream; a stream that comes then waits like the others."""
    sky = Sky()
    leader = await sky.led(STREAM)
    leader.forwarded = None
    assert isinstance(await sky.stage.on_request(sky.asked(STREAM)), Forward)
    next_one, promoted = await sky.parked()
    flight = sky.flights.numbered(leader.flight)
    sky.stage.on_end(leader)
    assert await promoted is None
    late = await sky.waiting(STREAM)
    sky.answer(next_one)
    assert flight is not None
    assert flight.live is not None
    assert flight.live.so_far().endswith(b"data: [DONE]\n\n")
    assert isinstance(await late, Answer)


PURGES = [
    pytest.param({}, True, id="everything"),
    pytest.param({"model": "m", "version": "v1", "tenant": "workload:default"}, True, id="its own"),
    pytest.param({"model": "n"}, False, id="another model"),
    pytest.param({"version": "v2"}, False, id="another version"),
    pytest.param({"tenant": "tenant:other"}, False, id="another tenant"),
    pytest.param({"key_prefix": "zz"}, False, id="another question"),
]


@pytest.mark.parametrize(("conditions", "meant"), PURGES)
@pytest.mark.parametrize("document", [HELLO, STREAM], ids=["json", "stream"])
async def test_after_a_purge_nobody_joins_a_flight_from_before(
    conditions: dict[str, str], meant: bool, document: dict[str, Any]
) -> None:
    """The first opens another in its place, which the next ones join; who waited gets what it waits for."""
    sky = Sky()
    before = await sky.led(document)
    waiting = await sky.waiting()
    sky.now_s += 10
    sky.purges = [Purge(sky.now_s + EPOCH_S, **conditions), Purge(1.0)]
    sky.now_s += 1
    if not meant:
        last = await sky.waiting()
        sky.answer(before)
        assert isinstance(await last, Answer)
        return
    after = await sky.led(document)
    assert after.flight != before.flight
    joined = await sky.waiting()
    sky.answer(before)
    assert isinstance(await waiting, Answer)
    assert not joined.done()
    sky.answer(after)
    assert isinstance(await joined, Answer)
    assert len(sky.flights) == 0


async def test_the_time_of_a_question_is_the_caches_where_it_asked() -> None:
    """It may have looked there for long."""
    sky = Sky()
    leader = sky.asked()
    leader.cache_key, leader.asked_at = question_key(leader), 50.0
    assert await sky.stage.on_request(leader) is None
    assert leader.asked_at == 50.0
    sky.purges = [Purge(60.0 + EPOCH_S)]
    assert (await sky.led()).flight != leader.flight


async def test_processors_agree_on_another_leader_after_each_purge() -> None:
    """Nobody follows one that leads since before; a purge of something else changes nothing."""
    others = Others("ours")
    sky = Sky(others)
    for purges in ([], [Purge(1.0, model="n")], [Purge(1.0)], [Purge(2.0), Purge(1.0)], [Purge(2.0)]):
        sky.purges = purges
        sky.answer(await sky.led())
    key = question_key(sky.asked())
    assert others.asked[:2] == [key, key]
    assert others.asked[3] == others.asked[4]
    assert len(set(others.asked)) == 3
    assert {len(asked) for asked in others.asked} == {32}


async def test_a_stream_that_ended_without_a_reason_is_not_called_for_again() -> None:
    """The provider has said all that it wants to."""
    sky = Sky()
    leader = await sky.led(STREAM)
    waiting = await sky.waiting()
    sky.stage.on_chunk(leader, event("a"), end=True)
    late = sky.asked(STREAM)
    assert await sky.stage.on_request(late) is None
    sky.stage.on_end(leader)
    assert await waiting is None
    assert sky.carried.flights == []


async def test_an_exchange_that_leads_nothing_disturbs_nothing() -> None:
    """Every hook passes it."""
    sky = Sky()
    other = sky.asked()
    sky.stage.on_response_head(other)
    sky.stage.on_unread(other)
    sky.stage.on_chunk(other, b"", end=True)
    sky.stage.on_end(other)
    sky.answer(other)
    assert len(sky.flights) == 0


async def test_a_leader_of_all_processors_tells_the_others_its_answer() -> None:
    """Once, when it lands; one that fails tells them that there is none."""
    for status, heard in ((200, Landed(WHOLE, "application/json", "b")), (500, None)):
        others = Others("ours")
        sky = Sky(others)
        leader = await sky.led()
        assert others.ended == []
        sky.answer(leader, status=status)
        sky.stage.on_end(leader)
        assert others.ended == [heard]


async def test_another_processors_leader_answers_everybody_here() -> None:
    """Who came first here waits like the others, and may leave them waiting."""
    others = Others("theirs")
    sky = Sky(others)
    first, second = await sky.waiting(), await sky.waiting()
    third = await sky.waiting()
    first.cancel()
    await settled()
    others.answer.set_result(Landed(WHOLE, "application/json", "b"))
    for task in (second, third):
        answer = await task
        assert isinstance(answer, Answer)
        assert (answer.body, answer.reason) == (WHOLE, Reason.SERVED_FROM_FLIGHT)
    assert (len(sky.flights), others.ended) == (0, [])


async def test_when_the_other_leader_has_no_answer_one_asks_for_all_here() -> None:
    """Its answer is everybody's, and those who leave meanwhile do not end its call."""
    others = Others("theirs")
    sky = Sky(others)
    (leader, promoted), waiting, leaving = await sky.parked(), await sky.waiting(), await sky.waiting()
    others.answer.set_result(None)
    assert await promoted is None
    leaving.cancel()
    await settled()
    assert not waiting.done()
    leader.forwarded = Forward("route")
    sky.answer(leader)
    assert isinstance(await waiting, Answer)
    assert len(sky.flights) == 0


async def test_when_nobody_waits_for_the_other_leader_nothing_is_left() -> None:
    """No flight, no call, no lead."""
    others = Others("theirs")
    sky = Sky(others)
    waiting = await sky.waiting()
    waiting.cancel()
    await settled()
    assert len(sky.flights) == 0
    assert others.answer.cancelled()


async def test_trouble_while_another_leader_is_heard_sends_everybody_on() -> None:
    """Whoever waits goes up, whatever went wrong."""
    others = Others("theirs")
    sky = Sky(others)
    waiting = [await sky.waiting() for _ in range(2)]
    await sky.flights.close()
    assert [await task for task in waiting] == [None, None]
    assert len(sky.flights) == 0


async def test_when_nobody_can_tell_each_processor_leads_its_own() -> None:
    """As without others; a stream never asks."""
    assert (await Sky(Others("nobody knows")).led()).flight
    assert (await Sky(Others("theirs")).led(STREAM)).flight
