"""Streams that many follow: what each of them hears, and when."""

from __future__ import annotations

import asyncio

import pytest

from ext_proc.live_stream import PIECE_BYTES, WOKEN_AT_ONCE, LiveStream, StreamCut
from ext_proc.openai.paths import Operation
from tests.unit.ext_proc.test_flights import DONE, USAGE, all_of, event, settled


async def test_a_follower_gets_what_came_and_then_each_part_as_it_comes() -> None:
    """Early and late ones alike, to the end."""
    live = LiveStream(Operation.CHAT)
    early = asyncio.create_task(all_of(live))
    live.append(event("a"))
    await settled()
    late = asyncio.create_task(all_of(live))
    live.append(event("b"))
    live.end(whole=True)
    assert await early == await late == event("a") + event("b")


async def test_only_whole_events_are_told_until_the_end() -> None:
    """A part that cuts an event waits for the rest of it; the end lets out what nobody ends."""
    live = LiveStream(Operation.CHAT)
    cut = event("a")
    live.append(cut[:7])
    assert not live.begun
    live.append(cut[7:] + b"data: half")
    assert live.so_far() == cut
    live.end(whole=True)
    assert await all_of(live) == cut + b"data: half"


async def test_a_cut_stream_tells_no_half_event_and_no_end() -> None:
    """The follower hears what was whole, then that it is cut."""
    live = LiveStream(Operation.CHAT)
    live.append(event("a") + b"data: half")
    live.end(whole=False)
    heard = []
    with pytest.raises(StreamCut):
        async for piece in live.follow(usage=True):
            heard.append(piece)
    assert heard == [event("a")]


async def test_after_the_end_nothing_is_added() -> None:
    """An end is an end, whoever says what afterwards."""
    live = LiveStream(Operation.CHAT)
    live.append(event("a"))
    live.end(whole=True)
    live.append(event("b"))
    live.end(whole=False)
    assert await all_of(live) == event("a")


@pytest.mark.parametrize("when", ["before", "between", "after"])
async def test_the_usage_is_only_for_those_who_asked(when: str) -> None:
    """Null fields and the last chunk are taken out for the others, whenever they come."""
    live = LiveStream(Operation.CHAT)
    plain = asyncio.create_task(all_of(live, usage=False))
    if when == "before":
        await settled()
    live.append(event("a", usage=None))
    if when == "between":
        await settled()
    live.append(USAGE + DONE)
    live.end(whole=True)
    assert await plain == event("a") + DONE
    assert await all_of(live) == event("a", usage=None) + USAGE + DONE


async def test_a_late_follower_reads_in_pieces() -> None:
    """What was said before is not put together into one large text for each who comes."""
    live = LiveStream(Operation.CHAT)
    for _ in range(50):
        live.append(event("x" * 10_000))
    live.end(whole=True)
    pieces = [piece async for piece in live.follow(usage=True)]
    assert max(len(piece) for piece in pieces) < 2 * PIECE_BYTES
    assert b"".join(pieces) == event("x" * 10_000) * 50


async def test_what_is_held_is_bounded() -> None:
    """The beginning is forgotten: nobody can join, who lags behind is cut, who keeps up is not."""
    live = LiveStream(Operation.CHAT, max_bytes=1000)
    quick, slow = live.follow(usage=True), live.follow(usage=True)
    live.append(event("first"))
    assert await anext(quick) == await anext(slow) == event("first")
    for number in range(40):
        live.append(event(f"{number}"))
        assert await anext(quick) == event(f"{number}")
    assert not live.intact
    for lost in (slow, live.follow(usage=True), live.follow(usage=False)):
        with pytest.raises(StreamCut):
            await anext(lost)
    with pytest.raises(StreamCut):
        live.so_far()


async def test_a_crowd_is_woken_in_turns() -> None:
    """Those who have heard a part hear the next one only after everybody has heard the first."""
    live = LiveStream(Operation.CHAT)
    heard: list[tuple[int, bytes]] = []

    async def follow(number: int) -> None:
        async for piece in live.follow(usage=True):
            heard.append((number, piece))

    crowd = [asyncio.create_task(follow(number)) for number in range(3 * WOKEN_AT_ONCE)]
    await settled()
    live.append(event("a"))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert heard == [(number, event("a")) for number in range(WOKEN_AT_ONCE)]
    live.append(event("b"))
    await settled()
    live.end(whole=True)
    await asyncio.gather(*crowd)
    for number in range(3 * WOKEN_AT_ONCE):
        assert b"".join(piece for who, piece in heard if who == number) == event("a") + event("b")
    first = [number for number, piece in heard if piece.startswith(event("a"))]
    assert first == list(range(3 * WOKEN_AT_ONCE))


async def test_who_leaves_while_nothing_is_said_is_forgotten() -> None:
    """And holds up nobody who stays, before or after the word has come."""
    live = LiveStream(Operation.CHAT)
    leaving, late, staying = (asyncio.create_task(all_of(live)) for _ in range(3))
    await settled()
    leaving.cancel()
    await settled()
    live.append(event("a"))
    late.cancel()
    live.end(whole=True)
    assert await staying == event("a")
    assert leaving.cancelled()
    assert late.cancelled()
