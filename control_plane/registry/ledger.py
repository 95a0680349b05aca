"""The state in memory and the transactions that change it: one writer at a time, followed by all who listen.

Knows no document, key or token: what a change does is its caller's. Follows other replicas by a hint from the
store and a poll.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import replace
from datetime import datetime
from typing import Protocol

from control_plane.registry.errors import RegistryError, StoreUnavailableError
from control_plane.registry.ports import Reading, Sealer, Store, Writing
from control_plane.registry.state import State, load, refreshed
from control_plane.registry.values import Actor, AuditEntry, Head, Revision, StoreStatus

KEY_SALT = "key_salt"
SALT_BYTES = 32
MAX_TEXT = 1024
CANCEL_AGAIN_S = 1.0

Listener = Callable[[Head], None]


class Log(Protocol):
    """Where the ledger tells of what nobody asked for."""

    def info(self, event: str, **fields: object) -> object:
        """Tell."""
        ...

    def warning(self, event: str, **fields: object) -> object:
        """Warn."""
        ...

    def error(self, event: str, **fields: object) -> object:
        """Tell of a failure."""
        ...


class Change:
    """One transaction in the making. Whoever makes it leaves in `state` what is true once it is committed."""

    def __init__(self, tx: Writing, state: State, at: datetime) -> None:
        self.tx = tx
        self.state = state
        self.at = at
        self._bumped: set[str] = set()

    @property
    def next_revision(self) -> int:
        """The number of the revision that this change may add."""
        return self.state.positions.newest + 1

    def touch(self, *epochs: str) -> None:
        """Have other replicas read these things again."""
        self._bumped.update(epochs)

    async def audit(
        self, actor: Actor, action: str, target: str, *, revision: int | None = None, detail: str = ""
    ) -> None:
        """Write an audit row with this change."""
        entry = audit_entry(self.at, actor, action, target, revision=revision, detail=detail)
        await self.tx.add_audit(entry)

    async def add_plain_revision(self, actor: Actor, action: str, target: str, detail: str) -> int:
        """Add a revision that changes no document, with its audit row; returns its number."""
        number = self.next_revision
        revision = Revision(number, self.at, actor.name, actor.source, action, detail=f"{target}: {detail}")
        await self.tx.add_revision(revision, (), of_documents=False)
        await self.audit(actor, action, target, revision=number, detail=detail)
        self.touch("revisions")
        return number

    async def flush(self) -> None:
        """Raise the counters that were touched, as the end of the change does by itself."""
        if self._bumped:
            await self.tx.bump(sorted(self._bumped))
            self._bumped.clear()

    async def finish(self) -> State:
        """Raise the counters that were touched; returns the state as of the commit."""
        if self._bumped:
            self.state = replace(self.state, epochs=await self.tx.bump(sorted(self._bumped)))
        return self.state


class Ledger:
    """Holds the state of one replica. `poll_s`: how long another replica's change may go unseen."""

    def __init__(
        self,
        store: Store,
        sealer: Sealer,
        *,
        now: Callable[[], datetime],
        random_bytes: Callable[[int], bytes],
        log: Log,
        poll_s: float,
    ) -> None:
        self._store = store
        self._sealer = sealer
        self._now = now
        self._random_bytes = random_bytes
        self._log = log
        self._poll_s = poll_s
        self._lock = asyncio.Lock()
        self._wake = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._listeners: list[Listener] = []
        self._closing = False
        self._status = StoreStatus(False, "not opened yet", now(), store.name)
        self.state = State()

    def subscribe(self, listener: Listener) -> None:
        """Call `listener` with each new head in force."""
        self._listeners.append(listener)

    def now(self) -> datetime:
        """Return the time of day, as changes are dated by it."""
        return self._now()

    def status(self) -> StoreStatus:
        """Return whether the database answers."""
        return self._status

    async def open(self) -> None:
        """Open the store, read everything and follow it.

        Raises:
            StoreUnavailableError, StorageFullError: the database cannot be used now.
            StoreOpenError, SecretKeyError: it cannot be used like this; the text says what to do.
        """
        await self._store.open()
        async with self._store.write() as tx:
            salt = await tx.setting(KEY_SALT)
            if salt is None:
                salt = self._random_bytes(SALT_BYTES).hex().encode()
                await tx.set_setting(KEY_SALT, salt)
            state = await load(tx, self._sealer, salt.decode())
        self._answered()
        self._adopt(state)
        self._tasks = [
            asyncio.create_task(self._store.watch(self._wake.set), name="store-watch"),
            asyncio.create_task(self._follow(), name="store-poll"),
        ]

    async def close(self) -> None:
        """Stop following and close the store."""
        self._closing = True
        left = {task for task in self._tasks if not task.done()}
        while left:
            # Again, since drivers have been seen to lose a cancellation that comes with an answer.
            for task in left:
                task.cancel()
            _, left = await asyncio.wait(left, timeout=CANCEL_AGAIN_S)
        await self._store.close()

    @contextlib.asynccontextmanager
    async def change(self) -> AsyncIterator[Change]:
        """Change the newest state, whoever made it; committed and told to all when the block ends well."""
        async with self._lock:
            with self._watched():
                async with self._store.write() as tx:
                    state = await refreshed(self.state, tx, self._sealer)
                    if "revisions" in state.unread:
                        raise StoreUnavailableError(state.unread["revisions"])
                    change = Change(tx, state, self._now())
                    yield change
                    state = await change.finish()
            self._adopt(state)

    @contextlib.asynccontextmanager
    async def look(self) -> AsyncIterator[Reading]:
        """Look at what is not in memory."""
        with self._watched():
            async with self._store.read() as reading:
                yield reading

    async def record(self, entry: AuditEntry) -> None:
        """Write an audit row of its own."""
        with self._watched():
            async with self._store.append() as tx:
                await tx.add_audit(entry)

    async def refresh(self) -> None:
        """Read what other replicas changed."""
        async with self._lock:
            with self._watched():
                async with self._store.read() as reading:
                    state = await refreshed(self.state, reading, self._sealer)
            self._adopt(state)

    def _adopt(self, state: State) -> None:
        before, self.state = self.state, state
        for what, reason in state.unread.items():
            if before.unread.get(what) != reason:
                self._log.error("another replica's change cannot be used here", what=what, reason=reason)
        if state.in_force is before.in_force:
            return
        for listener in self._listeners:
            listener(state.in_force)

    async def _follow(self) -> None:
        while not self._closing:
            # Not wait_for, which in Python 3.11 forgets a cancellation that comes with the event.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._poll_s):
                    await self._wake.wait()
            self._wake.clear()
            try:
                await self.refresh()
            except StoreUnavailableError:
                continue  # told once, by _watched
            except RegistryError as error:
                self._log.error("the database cannot be followed", reason=str(error))
            except Exception as error:
                # A defect; but a replica that follows no more would never hear of a revoked token.
                self._log.error("the database cannot be followed", error=error)

    @contextlib.contextmanager
    def _watched(self) -> Iterator[None]:
        try:
            yield
        except StoreUnavailableError as error:
            if self._status.reachable:
                self._status = StoreStatus(False, error.reason, self._now(), self._store.name)
                self._log.warning("the database cannot be used; reads go on", reason=error.reason)
            raise
        self._answered()

    def _answered(self) -> None:
        if not self._status.reachable:
            self._log.info("the database answers", database=self._store.name)
            self._status = StoreStatus(True, "", None, self._store.name)


def audit_entry(
    at: datetime,
    actor: Actor,
    action: str,
    target: str,
    *,
    revision: int | None = None,
    outcome: str = "ok",
    detail: str = "",
) -> AuditEntry:
    """Return an audit row without an id, its texts short and printable."""
    return AuditEntry(
        id=0,
        at=at,
        actor=printable(actor.name),
        role=printable(actor.role),
        source=printable(actor.source),
        action=printable(action),
        target=printable(target),
        revision=revision,
        outcome=printable(outcome),
        detail=printable(detail),
    )


def printable(text: str) -> str:
    """Return `text` cut to what a row holds, a question mark for each character no terminal should get."""
    return "".join(char if char.isprintable() else "?" for char in text[:MAX_TEXT])
