"""Leases in Redis: of its processors one leads a question's flight, and the others get the answer.

A lease is a key with the owner's random name and a short time to live, renewed while its leader works. Its
answer lies beside it for a moment, under the same hash tag, so that a cluster keeps both together. Whoever
waits is told of the answer of the leader that it found, of no other one's.

Redis is a help, never a need: without it every processor leads flights of its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from redis.asyncio import Redis
from structlog.typing import FilteringBoundLogger

from ext_proc.answers import Clocks
from ext_proc.stores.neighbour import Away, Neighbour
from ext_proc.tally import LeaseTally

PREFIX: Final = "outrigger:flight:"
OWNER_BYTES: Final = 16
TAKE_WITHIN_S: Final = 0.02
# Answers may be long, and nobody's request waits for them alone.
ANSWER_WITHIN_S: Final = 0.5
CALLS_AT_ONCE: Final = 8
ANSWER_FOR_MS: Final = 10_000
# A leader that has not come to an end by then has forgotten its lease.
HOLD_AT_MOST_S: Final = 900.0
FIRST_POLL_S: Final = 0.01
LAST_POLL_S: Final = 0.05
POLLS_PER_S: Final = 1_000
# Beyond that a question's waiters go up by themselves.
POLLED_AT_MOST: Final = 2_000
_LUA: Final = Path(__file__).parent / "lua"


@dataclass(frozen=True, slots=True)
class Lease:
    """This processor leads the flight of the question `key`. Give it back with `release`."""

    key: bytes
    owner: bytes


@dataclass(frozen=True, slots=True)
class Held:
    """Another processor, by the name of `owner`, leads the flight of the question `key`."""

    key: bytes
    owner: bytes


@dataclass(slots=True)
class _Poll:
    """One question that is polled, for all who wait for its answer."""

    answer: asyncio.Future[bytes | None]
    task: asyncio.Task[None] | None = None
    waiters: int = 0


class RedisLeases:
    """Leases of one processor. For one event loop.

    Args:
        client: made by `stores.redis.connect`; whoever made it closes it, after this.
        clocks: the time of day and this process's own, now.
        log: where trouble is told, once when it begins and once when it is over.
        new_owner: a name of `OWNER_BYTES` that nobody else has.
        tally: told what becomes of the leases.
    """

    def __init__(
        self,
        client: Redis,
        clocks: Callable[[], Clocks],
        log: FilteringBoundLogger,
        new_owner: Callable[[], bytes] = lambda: secrets.token_bytes(OWNER_BYTES),
        tally: LeaseTally | None = None,
    ) -> None:
        self._client = client
        self._new_owner = new_owner
        self._neighbour = Neighbour(
            self._client.ping,
            within_s=TAKE_WITHIN_S,
            at_once=CALLS_AT_ONCE,
            clock=lambda: clocks().own,
            log=log,
            opens="Redis does not answer; each processor leads its own flights",
            closes="Redis is back; processors share flights",
        )
        self._take = client.register_script((_LUA / "take_lease.lua").read_text())
        self._renew = client.register_script((_LUA / "renew_lease.lua").read_text())
        self._release = client.register_script((_LUA / "release_lease.lua").read_text())
        self._renewing: dict[Lease, asyncio.Task[None]] = {}
        self._returning: set[asyncio.Task[bool]] = set()
        self._polls: dict[Held, _Poll] = {}
        self.tally = tally if tally is not None else LeaseTally()

    async def take(self, key: bytes, for_s: float) -> Lease | Held | None:
        """Take the lease of `key`, which lasts `for_s` beyond the death of this process.

        Returns:
            The lease; who has it; or None within `TAKE_WITHIN_S` when Redis does not say.
        """
        if self._neighbour.is_away():
            self.tally.unavailable += 1
            return None
        lease = Lease(key, self._new_owner())
        for_ms = max(int(for_s * 1000), 1)
        try:
            owner = await self._neighbour.ask(
                lambda: self._take(keys=[_lease_name(key)], args=[lease.owner, for_ms])
            )
        except (Away, asyncio.CancelledError) as error:
            self._give_back(lease)  # it may have been taken all the same
            if isinstance(error, asyncio.CancelledError):
                raise
            self.tally.unavailable += 1
            return None
        if owner != lease.owner:
            self.tally.held += 1
            return Held(key, owner)
        self.tally.taken += 1
        self._renewing[lease] = asyncio.get_running_loop().create_task(
            self._keep(lease, for_s), name="lease renewal"
        )
        return lease

    async def release(self, lease: Lease, answer: bytes | None) -> bool:
        """Give `lease` back, and its answer to those who wait; None sends them on alone.

        Returns:
            Whether it was still ours. If not, or when Redis is away, nobody gets the answer.
        """
        released = await self._released(lease, answer)
        if not released:
            self.tally.lost += 1
        return released

    async def outcome(self, held: Held, within_s: float) -> bytes | None:
        """Wait for the answer of `held`'s owner; None when it leaves none, or not `within_s`.

        However many wait for one question, it is polled once.
        """
        poll = self._polls.get(held)
        if poll is None:
            if len(self._polls) >= POLLED_AT_MOST:
                return None
            loop = asyncio.get_running_loop()
            poll = self._polls[held] = _Poll(loop.create_future())
            poll.task = loop.create_task(self._watch(held, poll), name="lease poll")
        poll.waiters += 1
        try:
            async with asyncio.timeout(within_s):
                return await asyncio.shield(poll.answer)
        except TimeoutError:
            return None
        finally:
            poll.waiters -= 1
            if not poll.waiters:
                self._forget(held, poll)

    async def close(self) -> None:
        """Send on all who wait, and give back what is held, as far as a moment allows."""
        for held, poll in list(self._polls.items()):
            self._tell(poll, None)
            self._forget(held, poll)
        leases = list(self._renewing)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(ANSWER_WITHIN_S):
                await asyncio.gather(*(self._released(lease, None) for lease in leases), *self._returning)
        await self._neighbour.close()

    async def _released(self, lease: Lease, answer: bytes | None) -> bool:
        renewing = self._renewing.pop(lease, None)
        if renewing is not None:
            renewing.cancel()
        names = [_lease_name(lease.key), _answer_name(lease.key)]
        args: list[bytes | int] = [lease.owner, ANSWER_FOR_MS, answer or b""]
        try:
            return bool(
                await self._neighbour.ask(lambda: self._release(keys=names, args=args), ANSWER_WITHIN_S)
            )
        except Away:
            return False

    def _give_back(self, lease: Lease) -> None:
        returning = asyncio.get_running_loop().create_task(self._released(lease, None), name="lease return")
        self._returning.add(returning)
        returning.add_done_callback(self._returning.discard)

    async def _keep(self, lease: Lease, for_s: float) -> None:
        name, for_ms = _lease_name(lease.key), max(int(for_s * 1000), 1)
        kept_s = 0.0
        while kept_s < HOLD_AT_MOST_S:
            await asyncio.sleep(for_s / 3)
            kept_s += for_s / 3
            with contextlib.suppress(Away):
                if not await self._neighbour.ask(
                    lambda: self._renew(keys=[name], args=[lease.owner, for_ms]), ANSWER_WITHIN_S
                ):
                    return

    async def _watch(self, held: Held, poll: _Poll) -> None:
        answer = None
        try:
            answer = await self._answer_of(held)
        finally:
            self._tell(poll, answer)
            self._forget(held, poll)

    async def _answer_of(self, held: Held) -> bytes | None:
        names, pause_s = [_lease_name(held.key), _answer_name(held.key)], FIRST_POLL_S
        while True:
            await asyncio.sleep(pause_s)
            pause_s = max(min(pause_s * 1.5, LAST_POLL_S), len(self._polls) / POLLS_PER_S)
            try:
                owner, answer = await self._neighbour.ask(lambda: self._client.mget(names), ANSWER_WITHIN_S)
            except Away:
                if self._neighbour.is_away():
                    return None
                continue
            if isinstance(answer, bytes) and answer.startswith(held.owner):
                return answer[OWNER_BYTES:]
            if owner != held.owner:
                return None

    def _tell(self, poll: _Poll, answer: bytes | None) -> None:
        if not poll.answer.done():
            poll.answer.set_result(answer)

    def _forget(self, held: Held, poll: _Poll) -> None:
        if self._polls.get(held) is poll:
            del self._polls[held]
        if poll.task is not None and poll.task is not asyncio.current_task():
            poll.task.cancel()


def _lease_name(key: bytes) -> str:
    return f"{PREFIX}{{{key.hex()}}}:lease"


def _answer_name(key: bytes) -> str:
    return f"{PREFIX}{{{key.hex()}}}:answer"
