"""What every shared store does, in a real Redis, SQLite and PostgreSQL."""

from __future__ import annotations

import asyncio
import random
from dataclasses import replace

import pytest

from ext_proc.answers import StoredAnswer
from ext_proc.stores.entries import MAX_BODY_BYTES, encode_entry
from ext_proc.stores.entry_store import EntryStore
from tests.contract.ext_proc.stores.conftest import KEY, OTHER, Place, answer, clocks, numbered, written

QUESTIONS = 100


async def found(store: EntryStore, key: bytes) -> StoredAnswer | None:
    """Return what is under `key`, asking again as long as the store itself is late."""
    for _ in range(100):
        before = store.stats
        got = await store.get(key)
        if got is not None or store.stats.misses > before.misses:
            return got
        await asyncio.sleep(0.05)
    raise AssertionError("the store does not answer")


@pytest.mark.parametrize("body", [b"{}", b'{"a": 1}', b'{"a": "%b"}' % (b"x" * 100_000)])
async def test_an_answer_is_found_by_another_processor(place: Place, body: bytes) -> None:
    """Exactly, with all that a hit tells."""
    given = answer(body, partition="team-a")
    store = await place.open()
    store.put(KEY, given)
    await written(store)
    other = await place.open()
    got = await found(other, KEY)
    assert got is not None
    assert replace(got, stored_at=0, expires_at=0, fresh_until=0) == replace(
        given, stored_at=0, expires_at=0, fresh_until=0
    )
    for name in ("stored_at", "expires_at", "fresh_until"):
        assert getattr(got, name) == pytest.approx(getattr(given, name), abs=0.1)
    assert await found(other, OTHER) is None
    assert (other.stats.hits, other.stats.failures) == (1, 0)


async def test_the_newer_answer_takes_the_place_of_the_older(place: Place) -> None:
    """Also when both are written together."""
    store = await place.open()
    for number in range(1, 4):
        store.put(KEY, answer(b'{"a": %d}' % number))
        await written(store, number)
    for body in (b'{"a": 4}', b'{"a": 5}'):
        store.put(OTHER, answer(body))
    await written(store, 5)
    for key, body in ((KEY, b'{"a": 3}'), (OTHER, b'{"a": 5}')):
        got = await found(store, key)
        assert got is not None
        assert got.body == body or key == OTHER  # several writers keep no order between two at once


@pytest.mark.parametrize(
    "given",
    [
        pytest.param(answer(ttl_s=-1), id="too old"),
        pytest.param(answer(b"x" * (MAX_BODY_BYTES + 1)), id="too large"),
        pytest.param(answer(partition="a\x00b"), id="a text that is none"),
    ],
)
async def test_what_cannot_be_kept_is_refused(place: Place, given: StoredAnswer) -> None:
    """It is counted, and harms nothing."""
    store = await place.open()
    store.put(KEY, given)
    store.put(OTHER, answer())
    await written(store)
    assert (store.stats.refused, store.stats.dropped, store.stats.failures) == (1, 0, 0)


async def test_an_answer_that_expires_is_gone(place: Place) -> None:
    """At its time, whether it has been removed or not."""
    store = await place.open()
    store.put(KEY, answer(ttl_s=0.3))
    await written(store)
    assert await found(store, KEY) is not None
    await asyncio.sleep(0.35)
    assert await found(store, KEY) is None


async def test_poisoned_entries_are_no_answers(place: Place) -> None:
    """Cut, of another version, of another question, of somebody else: a miss, and the store goes on."""
    store = await place.open()
    good = encode_entry(KEY, answer(b'{"a": "%b"}' % (b"x" * 5_000)), clocks())
    for data in (
        b"",
        b"hello",
        encode_entry(KEY, answer(b"junk"), clocks()),
        encode_entry(KEY, answer(), clocks()).replace(b'"seconds":0.5', b'"seconds":"nan"'),
        good[:-1],
        good + b"x",
        good.replace(b"outrigger/2", b"outrigger/1"),
        encode_entry(OTHER, answer(), clocks()),
    ):
        await place.poison(KEY, data)
        assert await found(store, KEY) is None
    await place.poison(KEY, good)
    assert await found(store, KEY) is not None
    assert store.stats.failures == 0


def numbered_body(number: int) -> bytes:
    """Return an answer that is told from all others."""
    return b'{"a": "%b"}' % (b"answer %d " % number * 300)


async def test_readers_who_leave_cross_no_answers(place: Place) -> None:
    """A thousand, half of which leave at any moment: whoever stays gets the answer to its own question."""
    dice = random.Random(4)
    store = await place.open()
    for number in range(QUESTIONS):
        store.put(numbered(number), answer(numbered_body(number)))
    await written(store, QUESTIONS)

    async def read(number: int) -> None:
        reply = await store.get(numbered(number))
        assert reply is None or reply.body == numbered_body(number)

    for _ in range(10):
        readers = [asyncio.create_task(read(dice.randrange(QUESTIONS))) for _ in range(100)]
        for reader in dice.sample(readers, 50):
            await asyncio.sleep(0)
            reader.cancel()
        results = await asyncio.gather(*readers, return_exceptions=True)
        assert not [result for result in results if isinstance(result, Exception)]
    last = await found(store, numbered(7))
    assert last is not None
    assert last.body == numbered_body(7)


async def test_equal_questions_at_one_moment_are_one_read(place: Place) -> None:
    """All of them get the answer."""
    store = await place.open()
    store.put(KEY, answer())
    await written(store)
    before = store.stats.hits
    got = await asyncio.gather(*(store.get(KEY) for _ in range(500)))
    assert len({id(reply) for reply in got}) == 1
    assert got[0] is not None
    assert store.stats.hits - before == 500


async def test_what_waits_is_written_when_the_store_closes(place: Place) -> None:
    """As far as a moment allows."""
    store = await place.open()
    store.put(KEY, answer())
    await store.close()
    assert store.stats.written == 1
    assert await found(await place.open(), KEY) is not None
