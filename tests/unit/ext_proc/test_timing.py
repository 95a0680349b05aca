"""The stages' times: for whoever shows a proof, once, and for nobody else."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import orjson

from ext_proc.contract import headers as names
from ext_proc.contract.proofs import GOOD_FOR_S, make_proof
from ext_proc.exchange import Answer, Exchange, Forward, Reason
from ext_proc.pipeline import PassingStage, Pipeline
from ext_proc.snapshots import SnapshotHolder
from ext_proc.timing import MAX_USED, Stopwatches
from tests.unit.ext_proc.exchanges import HELLO, Counted, head, snapshot

SALT = "ab" * 32
NOW_S = 1_700_000_000.0
BODY = orjson.dumps(HELLO)


class Tiering(PassingStage):
    """A stage that fills something in."""

    name = "identify"

    async def on_request(self, exchange: Exchange) -> Answer | Forward | None:
        """Say which tier."""
        exchange.tier = "gold"
        return None


class Deciding(PassingStage):
    """A stage that decides as it is told."""

    name = "route"

    def __init__(self, decision: Answer | Forward) -> None:
        self.decision = decision

    async def on_request(self, exchange: Exchange) -> Answer | Forward | None:
        """Decide."""
        return self.decision


class Refusing(PassingStage):
    """A stage that refuses by the headers alone."""

    name = "identify"

    async def on_head(self, exchange: Exchange) -> Answer | Forward | None:
        """Refuse."""
        return Answer(401, b"{}", Reason.UNKNOWN_KEY)


def proof(nonce: str = "0f") -> str:
    """Return a proof that is good now."""
    return make_proof(SALT, int(NOW_S) + GOOD_FOR_S, nonce)


def ticking() -> Iterator[int]:
    """Yield nanoseconds: a microsecond more at each look."""
    yield from range(1_000, 10**9, 1_000)


def piped(*stages: PassingStage) -> Pipeline:
    """Return a pipeline whose clock goes on by a microsecond a look."""
    holder, clock = SnapshotHolder(), ticking()
    holder.replace(snapshot(key_salt=SALT))
    return Pipeline(stages, holder, Counted(), stopwatches=Stopwatches(lambda: next(clock), lambda: NOW_S))


def begun(pipeline: Pipeline, shown: str) -> Exchange:
    """Return an exchange of a caller who shows a proof."""
    return pipeline.begin(head({names.STAGES: shown}))


def told(pairs: tuple[tuple[str, str], ...]) -> dict[str, Any]:
    """Return what a response header tells of the stages."""
    found: dict[str, Any] = json.loads(dict(pairs)[names.STAGES])
    return found


async def test_every_stage_is_told_with_its_time_and_what_it_changed() -> None:
    """In their order, with the time that the provider took."""
    pipeline = piped(Tiering(), Deciding(Forward("r")))
    exchange = begun(pipeline, proof())
    await pipeline.request_head(exchange)
    assert await pipeline.request_body(exchange, BODY) == Forward("r")
    assert exchange.stopwatch is not None
    exchange.stopwatch.came()
    assert told(exchange.stopwatch.told()) == {
        "stages": [
            {"stage": "parse", "us": 1.0, "did": "passed"},
            {"stage": "identify", "us": 1.0, "did": "passed", "set": {"tier": "gold"}},
            {"stage": "route", "us": 1.0, "did": "forwarded"},
        ],
        "upstreamMs": 0.001,
    }
    assert exchange.wants_head


async def test_an_answer_of_our_own_tells_it_itself() -> None:
    """Whether it was given on the headers or on the body."""
    pipeline = piped(Deciding(Answer(200, b"{}", Reason.SERVED_PIN)))
    answer = await pipeline.request_body(begun(pipeline, proof()), BODY)
    assert isinstance(answer, Answer)
    assert told(answer.headers)["stages"][-1]["did"] == "served-pin"
    pipeline = piped(Refusing())
    refused = await pipeline.request_head(begun(pipeline, proof()))
    assert isinstance(refused, Answer)
    assert [one["did"] for one in told(refused.headers)["stages"]] == ["unknown-key"]


async def test_without_a_good_proof_nothing_is_timed_nor_told() -> None:
    """An ordinary caller's header means nothing, nor does a proof that was used."""
    pipeline = piped(Deciding(Answer(200, b"{}", Reason.SERVED_PIN)))
    assert begun(pipeline, proof("aa")).stopwatch is not None
    for shown in ("", "yes", proof("aa"), make_proof("cd" * 32, int(NOW_S) + 9, "0f")):
        exchange = begun(pipeline, shown)
        assert exchange.stopwatch is None
        assert not exchange.wants_head
        assert await pipeline.request_body(exchange, BODY) == Answer(200, b"{}", Reason.SERVED_PIN)


def test_what_is_remembered_of_proofs_is_bounded() -> None:
    """While so many are good nobody else is given a stopwatch; later they are forgotten."""
    pipeline, now = piped(), [NOW_S]
    watches = Stopwatches(lambda: 0, lambda: now[0])
    for number in range(MAX_USED + 1):
        exchange = begun(pipeline, make_proof(SALT, int(NOW_S) + GOOD_FOR_S, f"{number:06x}"))
        exchange.stopwatch = None
        watches.give(exchange)
        assert (exchange.stopwatch is not None) == (number < MAX_USED)
    now[0] += 3 * GOOD_FOR_S
    late = begun(pipeline, make_proof(SALT, int(now[0]) + GOOD_FOR_S, "0f"))
    watches.give(late)
    assert late.stopwatch is not None
