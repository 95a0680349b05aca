"""Calls that go on when nobody waits for them."""

from __future__ import annotations

import asyncio

import pytest

from ext_proc.stores.outlasting import Calls


async def test_a_call_outlasts_its_caller() -> None:
    """It ends by itself; so does one that fails, and nobody complains."""
    calls, ended = Calls(), asyncio.Event()

    async def work() -> None:
        await asyncio.sleep(0.005)
        ended.set()
        raise OSError("nobody hears this")

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.001):
            await calls.outlast(work())
    assert not ended.is_set()
    async with asyncio.timeout(1):
        await ended.wait()


async def test_whoever_stays_hears_how_it_ends() -> None:
    """Its answer or its error."""
    calls = Calls()

    async def fails() -> None:
        raise OSError("heard")

    assert await calls.outlast(asyncio.sleep(0, "answer")) == "answer"
    with pytest.raises(OSError, match="heard"):
        await calls.outlast(fails())


async def test_closing_waits_a_moment_and_ends_what_is_left() -> None:
    """In order."""
    calls = Calls()
    short, long = calls.start(asyncio.sleep(0.005, "done")), calls.start(asyncio.sleep(60))
    await calls.close(0.05)
    assert short.result() == "done"
    assert long.cancelled()
    await calls.close(60)
