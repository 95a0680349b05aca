"""Asking a new version for nobody."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace

import orjson
import pytest
import structlog
from structlog.testing import capture_logs

from ext_proc import shadow
from ext_proc.continuation import CallFailed
from ext_proc.contract.snapshot import Backend, Consumer, Model, Quota, Rollout, Snapshot, Version
from ext_proc.exchange import Answer, Exchange, Forward
from ext_proc.openai.paths import Operation
from ext_proc.openai.requests import BadRequest
from ext_proc.openai.responses import parse_completion
from ext_proc.pairs import Came
from ext_proc.refusals import no_backend
from ext_proc.release_tally import Mirrored, ReleaseTally
from ext_proc.shadow import AT_ONCE, MAX_BODY_BYTES, ShadowCalls
from ext_proc.snapshots import Loaded
from tests.unit.ext_proc.exchanges import HELLO, exchange, snapshot
from tests.unit.ext_proc.test_continuation import FINISH, STREAM, WHOLE, Provider
from tests.unit.ext_proc.test_flights import DONE, event, settled

MODEL = Model(
    "m",
    (Version("old", "b", "m-1"), Version("new", "b", "m-2", settings={"retry.attempts": 7})),
    releases=(Rollout("r", "old", "new", 0.0, "salt", shadow=1.0),),
)
SNAPSHOT = snapshot(models={"m": MODEL})
OLD = Came(200, 0.4, None, WHOLE, parse_completion(Operation.CHAT, WHOLE))


class Asking:
    """Calls that a test answers, under a snapshot."""

    def __init__(self, provider: Provider, in_force: Snapshot = SNAPSHOT) -> None:
        self.tally = ReleaseTally()
        self.made: list[Exchange] = []
        self.ended: list[Exchange] = []
        self.decision: Answer | Forward | Exception = Forward("route")
        self.calls = ShadowCalls(
            lambda: Loaded(in_force), provider, self.tally, iter(range(99)).__next__, structlog.get_logger()
        )
        self.calls.go_by(self.decide, self.ended.append)

    async def decide(self, exchange: Exchange) -> Answer | Forward | None:
        """Say where it goes."""
        self.made.append(exchange)
        if isinstance(self.decision, TimeoutError):
            await asyncio.Event().wait()
        if isinstance(self.decision, Exception):
            raise self.decision
        return self.decision

    async def ask(
        self, headers: Mapping[str, str] | None = None, *, stream: bool = False, body: bytes = b""
    ) -> dict[Mirrored, int]:
        """Ask once, and return what became of it."""
        opened = exchange(SNAPSHOT, {**HELLO, "stream": stream}, headers)
        opened.model, opened.release, opened.assigned = MODEL, "r", "old"
        opened.consumer = Consumer("team", "t")
        self.calls.ask(opened, body or opened.body, OLD)
        await settled()
        return {outcome: number for outcome, number in self.tally.mirrored.items() if number}


async def test_the_new_version_is_asked_the_same_under_its_own_policy() -> None:
    """With the caller's headers but for what is of their call alone; both calls are told of."""
    provider = Provider()
    asking = Asking(provider)
    kept = {"x-team": "a", "authorization": "Bearer k"}
    dropped = {
        "x-outrigger-session": "s",
        "idempotency-key": "i",
        "traceparent": "t",
        "content-encoding": "x",
    }
    assert await asking.ask({**kept, **dropped}) == {Mirrored.ANSWERED: 1}
    ((head, forward, body),) = provider.calls
    assert dict(head.headers) == {"content-type": "application/json", **kept}
    assert (forward, orjson.loads(body)["messages"]) == (asking.decision, HELLO["messages"])
    (made,) = asking.made
    assert (made.version_name, made.assigned, made.release) == ("new", "new", "")
    assert (made.policy.retry.attempts, made.metered, made.session_key) == (7, None, None)
    assert asking.ended == [made]
    found = asking.tally.comparisons["r"]
    assert (found.old.calls, found.new.calls, found.new.errors, found.likeness.agreed) == (1, 1, 0, 1)
    (duration,) = found.new.duration
    assert duration > 0


async def test_a_stream_is_read_to_its_end() -> None:
    """The time of its first piece is told."""
    asking = Asking(Provider(headers=STREAM, said=(event("abc"), FINISH, DONE)))
    assert await asking.ask(stream=True) == {Mirrored.ANSWERED: 1}
    assert asking.made[0].wants_stream
    found = asking.tally.comparisons["r"]
    assert (len(found.new.first_byte), found.likeness.agreed) == (1, 1)


@pytest.mark.parametrize(
    "provider",
    [
        Provider(status=500),
        Provider(status=429),
        Provider(said=(b"{}",)),
        Provider(said=(b"{", CallFailed("broke off"))),
        Provider(headers=STREAM, said=(event("abc"),)),
        Provider(headers=STREAM, said=(event("abc"), CallFailed("broke off"))),
    ],
    ids=["fault", "refusal", "no answer", "broken", "stream without an end", "broken stream"],
)
async def test_what_is_no_answer_is_the_new_versions_error(provider: Provider) -> None:
    """However it failed, once it was asked."""
    asking = Asking(provider)
    assert await asking.ask() == {Mirrored.FAILED: 1}
    found = asking.tally.comparisons["r"]
    assert (found.old.errors, found.new.calls, found.new.errors) == (0, 1, 1)


@pytest.mark.parametrize(
    ("decision", "outcome"),
    [
        (no_backend(), Mirrored.DROPPED_COOLING),
        (BadRequest(400, "forbidden"), Mirrored.DROPPED_REFUSED),
        (ValueError("defect"), Mirrored.UNSENT),
    ],
    ids=["cooling", "its policy forbids it", "defect"],
)
async def test_what_is_not_asked_says_nothing_of_the_new_version(
    decision: Answer | Exception, outcome: Mirrored
) -> None:
    """It is counted, and no evidence."""
    provider = Provider()
    asking = Asking(provider)
    asking.decision = decision
    with capture_logs() as logs:
        assert await asking.ask() == {outcome: 1}
    assert (provider.calls, asking.tally.comparisons, len(asking.ended)) == ([], {}, 1)
    assert bool(logs) is (outcome is Mirrored.UNSENT)


async def test_who_would_have_to_wait_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """A line of callers comes first."""
    monkeypatch.setattr(shadow, "WAITS_AT_MOST_S", 0.0)
    asking = Asking(Provider())
    asking.decision = TimeoutError()
    await asking.ask()
    await asyncio.sleep(0.01)
    assert asking.tally.mirrored[Mirrored.DROPPED_COOLING] == 1


@pytest.mark.parametrize(
    "provider",
    [
        Provider(refused=CallFailed("no connection")),
        Provider(headers={"x-outrigger-error": "no-route"}, status=503),
    ],
    ids=["no connection", "no route"],
)
async def test_our_own_failure_is_no_evidence(provider: Provider) -> None:
    """Nor is a route that Envoy has forgotten."""
    asking = Asking(provider)
    (outcome,) = await asking.ask()
    assert outcome in (Mirrored.UNSENT, Mirrored.DROPPED_ENDED)
    assert asking.tally.comparisons == {}


@pytest.mark.parametrize(
    "model",
    [
        replace(MODEL, releases=()),
        replace(MODEL, releases=(replace(MODEL.releases[0], shadow=0.0, share=0.05),)),
        replace(MODEL, versions=MODEL.versions[:1]),
        None,
    ],
    ids=["deleted", "at its first step", "without the version", "no Model"],
)
async def test_a_release_that_has_moved_on_asks_nobody(model: Model | None) -> None:
    """What is in force when the call would be made counts."""
    provider = Provider()
    asking = Asking(provider, snapshot(models={"m": model} if model else {}))
    assert await asking.ask() == {Mirrored.DROPPED_ENDED: 1}
    assert provider.calls == []


async def test_not_too_many_and_not_too_much_at_a_time() -> None:
    """Beyond that nobody is asked, and nobody waits; all ends with the processor."""
    provider = Provider(holds=True)
    asking = Asking(provider)
    assert await asking.ask(body=b" " * (MAX_BODY_BYTES + 1)) == {Mirrored.DROPPED_LARGE: 1}
    for _ in range(AT_ONCE + 3):
        await asking.ask()
    assert (len(provider.calls), asking.tally.mirrored[Mirrored.DROPPED_CAP]) == (AT_ONCE, 3)
    assert not asking.calls.has_room()
    await asking.calls.close()
    assert provider.ended == AT_ONCE


async def test_few_of_a_backends_places_are_taken() -> None:
    """Callers need them."""
    provider = Provider(holds=True)
    backend = Backend("b", "http://127.0.0.1:1/v1", quota=Quota(concurrency=8))
    asking = Asking(provider, snapshot(models={"m": MODEL}, backends={"b": backend}))
    for _ in range(5):
        await asking.ask()
    assert (len(provider.calls), asking.tally.mirrored[Mirrored.DROPPED_COOLING]) == (2, 3)
    asking.calls.unread()
    assert asking.tally.mirrored[Mirrored.DROPPED_UNREAD] == 1
    await asking.calls.close()
