"""When inputs gather and when they go."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Sequence
from typing import Any

import pytest

from ext_proc.adaptation import Adaptation
from ext_proc.batches import CALLS_AT_ONCE, Batch, Batches, BatchQueue, Failure, Member, Terms, shares_of
from ext_proc.openai.batching.inputs import Input, Parts, Share
from ext_proc.openai.batching.native import Native
from ext_proc.openai.paths import Operation
from tests.unit.ext_proc.exchanges import exchange
from tests.unit.ext_proc.test_flights import settled

CODEC = Native(Operation.EMBEDDINGS)
WINDOW_S = 0.03
REFUSED = Failure(400, b"no", ())


def parts(*texts: str, tokens: int = 1) -> Parts:
    """Return the parts of a request with these inputs."""
    return Parts(tuple(Input(text, tokens) for text in texts), {})


class Provider:
    """Answers each batch when it is let, and writes down what it was asked."""

    def __init__(self, *, open: bool = True) -> None:
        self.asked: list[list[str]] = []
        self.gate = asyncio.Event()
        self.poison: set[str] = set()
        self.ended = self.out = self.most_out = 0
        if open:
            self.gate.set()
        self.batches = Batches(self.send, asyncio.get_running_loop().time)

    async def send(self, batch: Batch) -> bool:
        """Give each input its own text; a batch with poison in it gives nothing."""
        self.out += 1
        self.most_out = max(self.most_out, self.out)
        texts = [entry.input.value for entry in batch.queued]
        self.asked.append(texts)
        try:
            await self.gate.wait()
            await asyncio.sleep(0)
            if self.poison.isdisjoint(texts):
                shares = [Share({}, ({"said": text},), None) for text in texts]
                shares_of(batch.queued, shares)
                return True
            batch.failure = REFUSED
            return False
        finally:
            self.ended += 1
            self.out -= 1

    def queue(self, key: bytes = b"k", **terms: Any) -> BatchQueue:
        """Return the queue, which sends at most 3 inputs and goes at once below 1 waiting."""
        given = {"send_below": 1, "max_inputs": 3, "max_tokens": 100, "max_wait_s": WINDOW_S, **terms}
        return self.batches.queue(key, CODEC, Terms(**given))

    def ask(self, queue: BatchQueue, *texts: str, tokens: int = 1) -> asyncio.Task[Member]:
        """Gather with these inputs."""
        return asyncio.create_task(self.batches.wait(queue, exchange(), parts(*texts, tokens=tokens)))


def said(member: Member) -> list[str] | None:
    """Return what a member got."""
    shares = member.done.result()
    return None if shares is None else [share.entries[0]["said"] for share in shares]


async def test_a_full_call_goes_at_once_and_a_rest_with_its_window() -> None:
    """Seven inputs are calls of three, three and one; everybody gets their own."""
    provider = Provider()
    queue = provider.queue()
    waiting = [provider.ask(queue, f"t{number}") for number in range(7)]
    await settled()
    assert [len(texts) for texts in provider.asked] == [3, 3]
    members = await asyncio.gather(*waiting)
    assert [said(member) for member in members] == [[f"t{number}"] for number in range(7)]
    assert len(provider.asked) == 3
    await settled()
    assert len(provider.batches) == 0


async def test_few_go_at_once_and_others_gather_until_they_are_answered() -> None:
    """With a call out, arrivals wait for its end and no longer."""
    provider = Provider(open=False)
    queue = provider.queue(send_below=3, max_wait_s=60)
    assert provider.batches.goes_at_once(queue, 1)
    assert provider.batches.goes_at_once(queue, 1)
    assert not provider.batches.goes_at_once(queue, 1)
    waiting = [provider.ask(queue, text) for text in "ab"]
    await settled()
    assert provider.asked == []
    provider.batches.left(b"k")
    await settled()
    assert provider.asked == []
    provider.batches.left(b"k")
    await settled()
    assert provider.asked == [["a", "b"]]
    provider.gate.set()
    assert [said(member) for member in await asyncio.gather(*waiting)] == [["a"], ["b"]]


async def test_more_inputs_than_a_call_holds_are_several_calls() -> None:
    """Their answers are one again, in order; a neighbour shares the last call."""
    provider = Provider()
    queue = provider.queue()
    assert not provider.batches.goes_at_once(queue, 7)
    large, small = provider.ask(queue, *"abcdefg"), provider.ask(queue, "z")
    assert said(await large) == list("abcdefg")
    assert said(await small) == ["z"]
    assert provider.asked == [["a", "b", "c"], ["d", "e", "f"], ["g", "z"]]


async def test_one_request_of_ten_thousand_inputs_holds_nobody_up() -> None:
    """Its share of the work is linear in them."""
    provider = Provider()
    queue = provider.queue(max_inputs=20, max_tokens=1_000_000)
    texts = [str(number) for number in range(10_000)]
    async with asyncio.timeout(5):
        assert said(await provider.ask(queue, *texts)) == texts
    assert len(provider.asked) == 500
    assert provider.most_out == CALLS_AT_ONCE


async def test_a_long_request_asks_again_only_for_what_failed() -> None:
    """Without company, within the bound; a neighbour in the failing call goes alone."""
    provider = Provider()
    provider.poison = {"z"}
    queue = provider.queue()
    large, small = provider.ask(queue, *"abcdefg"), provider.ask(queue, "z")
    assert said(await large) == list("abcdefg")
    assert said(await small) is None
    assert provider.asked == [["a", "b", "c"], ["d", "e", "f"], ["g", "z"], ["g"]]


async def test_a_long_request_that_fails_twice_is_told_why() -> None:
    """It is not sent as one call, which nobody allows; what nobody waits for any more is ended."""
    provider = Provider()
    provider.poison = {"d"}
    queue = provider.queue()
    member = await provider.ask(queue, *"abcdefg")
    assert (said(member), member.failed, member.failure) == (None, True, REFUSED)
    assert max(map(len, provider.asked)) <= 3
    await settled()
    assert (len(provider.batches), provider.out) == (0, 0)


async def test_tokens_bound_a_call() -> None:
    """One input goes, however large it is."""
    provider = Provider()
    queue = provider.queue(max_tokens=10, max_inputs=50)
    waiting = [provider.ask(queue, text, tokens=tokens) for text, tokens in (("a", 4), ("b", 5), ("c", 99))]
    await asyncio.gather(*waiting)
    assert provider.asked == [["a", "b"], ["c"]]


async def test_a_batch_that_fails_sends_its_members_alone() -> None:
    """And no other batch."""
    provider = Provider()
    provider.poison = {"b"}
    queue = provider.queue()
    members = await asyncio.gather(*(provider.ask(queue, text) for text in "abcdef"))
    assert [said(member) for member in members] == [None, None, None, ["d"], ["e"], ["f"]]


async def test_a_fault_of_ours_sends_its_members_alone(caplog: pytest.LogCaptureFixture) -> None:
    """Nobody waits for ever."""

    async def broken(batch: Batch) -> bool:
        raise RuntimeError("broken")

    batches = Batches(broken, lambda: 0.0)
    queue = batches.queue(b"k", CODEC, Terms(1, 1, 10, 1.0))
    member = await batches.wait(queue, exchange(), parts("a"))
    assert said(member) is None


async def test_one_that_leaves_takes_only_its_own_along() -> None:
    """Before the call its inputs are left out; a call for nobody is ended."""
    provider = Provider(open=False)
    queue = provider.queue()
    stays, leaves = provider.ask(queue, "a"), provider.ask(queue, "b")
    await settled()
    leaves.cancel()
    await settled()
    await asyncio.sleep(WINDOW_S * 1.5)
    assert provider.asked == [["a"]]
    stays.cancel()
    await settled()
    assert (provider.ended, len(provider.batches)) == (1, 0)


async def test_shapes_do_not_mix() -> None:
    """Each queue has its own calls."""
    provider = Provider()
    await asyncio.gather(
        *(provider.ask(provider.queue(key), text) for key, text in ((b"x", "a"), (b"y", "b")))
    )
    assert sorted(provider.asked) == [["a"], ["b"]]


async def test_a_learned_size_is_kept_to() -> None:
    """It is the adaptation's, not the policy's."""
    provider = Provider()
    adaptation = Adaptation(8, WINDOW_S, 1.0)
    queue = provider.batches.queue(b"k", CODEC, Terms(1, 8, 100, WINDOW_S), adaptation)
    for _ in range(4):
        provider.batches.goes_at_once(queue, 1)
    members = await asyncio.gather(*(provider.ask(queue, str(number)) for number in range(4)))
    assert all(said(member) for member in members)
    assert [len(texts) for texts in provider.asked] == [2, 2]


async def test_a_call_that_fails_teaches_nothing() -> None:
    """Neither that small batches are quick, nor that large ones are."""
    provider = Provider()
    provider.poison = {"0"}
    adaptation = Adaptation(8, WINDOW_S, None)
    queue = provider.batches.queue(b"k", CODEC, Terms(1, 8, 100, WINDOW_S), adaptation)
    adaptation.answered(2, 0.001)
    before = adaptation.size
    await asyncio.gather(*(provider.ask(queue, str(number)) for number in range(before)))
    assert adaptation.size == before


async def test_at_the_end_nobody_waits() -> None:
    """Members of a call that is out go alone."""
    provider = Provider(open=False)
    queue = provider.queue()
    waiting = [provider.ask(queue, text) for text in "abc"]
    await settled()
    await provider.batches.close()
    assert [said(member) for member in await asyncio.gather(*waiting)] == [None, None, None]
    assert len(provider.batches) == 0


@pytest.mark.parametrize("seed", range(8))
async def test_whatever_happens_each_gets_its_own_or_goes_alone(seed: int) -> None:
    """Members of any size that come, leave and are poisoned at any moment: none waits for ever, none gets
    a neighbour's answer, and nothing is left behind.
    """
    chance, provider = random.Random(seed), Provider()
    queues = [provider.queue(key, send_below=chance.choice((1, 3))) for key in (b"x", b"y")]
    provider.poison = {f"{number}.0" for number in range(0, 200, 17)}

    async def live(number: int) -> tuple[Sequence[str], list[str] | None]:
        await asyncio.sleep(chance.random() * 0.05)
        key = chance.choice((b"x", b"y"))
        queue = provider.batches.queue(key, CODEC, queues[0].terms)
        texts = [f"{number}.{entry}" for entry in range(chance.randint(1, 5))]
        if provider.batches.goes_at_once(queue, len(texts)):
            try:
                await asyncio.sleep(chance.random() * 0.01)
            finally:
                provider.batches.left(key)
            return texts, texts
        return texts, said(await provider.batches.wait(queue, exchange(), parts(*texts)))

    tasks = [asyncio.create_task(live(number)) for number in range(200)]
    for task in chance.sample(tasks, 40):
        await asyncio.sleep(chance.random() * 0.002)
        task.cancel()
    async with asyncio.timeout(10):
        await asyncio.gather(*tasks, return_exceptions=True)
    for task in tasks:
        with contextlib.suppress(asyncio.CancelledError):
            texts, got = task.result()
            assert got in (None, list(texts))
    await settled()
    assert len(provider.batches) == 0
