"""Plays a scripted behaviour on a reply."""

from __future__ import annotations

import asyncio

from control_plane.tools.provider.script import Behaviour
from control_plane.tools.provider.timing import Clock
from control_plane.tools.provider.wire.messages import Headers, Reply


async def wait_turn(behaviour: Behaviour, clock: Clock) -> None:
    """Wait as long as the behaviour keeps the caller waiting for the headers; `hang` until it leaves."""
    if behaviour.hang:
        await asyncio.Event().wait()
    if behaviour.delay_ms:
        await clock.sleep_until(clock.monotonic() + behaviour.delay_ms / 1000)


async def play(behaviour: Behaviour, reply: Reply, clock: Clock, more_headers: Headers) -> None:
    """Send what the behaviour says; `more_headers` are those every answer has."""
    if behaviour.silent:
        _break(behaviour, reply)
        return
    raw = behaviour.raw
    if raw is not None:
        await reply.raw(raw)
        return
    headers = (*behaviour.all_headers(), *more_headers)
    pieces = behaviour.pieces()
    if not behaviour.chunked and behaviour.close is None:
        await reply.send(behaviour.status, headers, b"".join(pieces))
        return
    await reply.start(behaviour.status, headers)
    for place, piece in enumerate(pieces):
        if place:
            await _pause(behaviour, clock)
        if piece:
            await reply.write(piece)
    if behaviour.close is None:
        await reply.end(behaviour.trailers)
        return
    await _pause(behaviour, clock)
    _break(behaviour, reply)


async def _pause(behaviour: Behaviour, clock: Clock) -> None:
    if behaviour.chunk_delay_ms:
        await clock.sleep_until(clock.monotonic() + behaviour.chunk_delay_ms / 1000)


def _break(behaviour: Behaviour, reply: Reply) -> None:
    if behaviour.close == "reset":
        reply.reset()
    else:
        reply.close()
