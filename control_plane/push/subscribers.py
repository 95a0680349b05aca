"""Who follows the policy, and what each has been sent and has answered: plain data, no transport.

The newest snapshot wins: a slow subscriber skips what it missed. A version that a subscriber refused is
never sent to it again, also not after a reconnect; the next version is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from ext_proc.contract.snapshot import Snapshot, encode

Compiler = Callable[[str], Snapshot]
"""From a workload's name to its snapshot under the documents in force."""

# Refusals of subscribers that have gone are remembered, the oldest forgotten first.
MAX_REMEMBERED = 4096


@dataclass(frozen=True, slots=True)
class Identity:
    """What a subscriber says about itself when it connects."""

    subscriber_id: str
    workload: str
    build: str = ""
    in_force: str = ""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A version a subscriber refused, and why."""

    version: str
    reason: str


@dataclass(slots=True)
class Subscriber:
    """One subscriber's state. `pushed` and `acknowledged` are versions, "" before the first."""

    identity: Identity
    connected: bool = True
    pushed: str = ""
    acknowledged: str = ""
    oldest_in_use: str = ""
    refusal: Refusal | None = None
    changed: asyncio.Event = field(default_factory=asyncio.Event)


@dataclass(frozen=True, slots=True)
class Push:
    """One snapshot to send, encoded."""

    version: str
    revision: int
    content: bytes


class Subscribers:
    """The subscribers of one control plane, and the policy they are to follow.

    Belongs to one event loop. `publish` replaces the policy; `next_push` says what to send.
    """

    def __init__(self) -> None:
        self._compile: Compiler | None = None
        self._by_id: dict[str, Subscriber] = {}
        self._pushes: dict[str, Push] = {}

    def __repr__(self) -> str:
        connected = sum(subscriber.connected for subscriber in self._by_id.values())
        return f"<Subscribers {connected} connected of {len(self._by_id)}>"

    @property
    def by_id(self) -> Mapping[str, Subscriber]:
        """Every known subscriber by its id, those that have gone included."""
        return self._by_id

    def publish(self, compiler: Compiler) -> None:
        """Put a policy in force: every subscriber is due its snapshot."""
        self._compile = compiler
        self._pushes.clear()
        for subscriber in self._by_id.values():
            subscriber.changed.set()

    def connect(self, identity: Identity) -> Subscriber:
        """Register a connection and return its state.

        An earlier connection of the same id is superseded: it is marked as gone and woken.
        """
        earlier = self._by_id.pop(identity.subscriber_id, None)
        subscriber = Subscriber(identity)
        if earlier is not None:
            subscriber.refusal = earlier.refusal
            earlier.connected = False
            earlier.changed.set()
        self._by_id[identity.subscriber_id] = subscriber
        subscriber.changed.set()
        self._forget()
        return subscriber

    def disconnect(self, subscriber: Subscriber) -> None:
        """Mark `subscriber` as gone."""
        subscriber.connected = False

    def next_push(self, subscriber: Subscriber) -> Push | None:
        """Return what `subscriber` is to be sent now, and count it as sent; None when it is up to date."""
        push = self.current(subscriber.identity.workload)
        if push is None or push.version == subscriber.pushed:
            return None
        if subscriber.refusal is not None and subscriber.refusal.version == push.version:
            return None
        subscriber.pushed = push.version
        return push

    def acknowledge(self, subscriber: Subscriber, version: str, oldest_in_use: str) -> None:
        """Record that `version` is in force at `subscriber`."""
        subscriber.acknowledged = version
        subscriber.oldest_in_use = oldest_in_use
        # An older version is acknowledged again when its exchanges end: that undoes no refusal.
        if subscriber.refusal is not None and version == subscriber.pushed != subscriber.refusal.version:
            subscriber.refusal = None

    def refuse(self, subscriber: Subscriber, version: str, reason: str) -> None:
        """Record that `subscriber` refused `version`."""
        subscriber.refusal = Refusal(version, reason)

    def current(self, workload: str) -> Push | None:
        """Return the snapshot of `workload` under the policy in force; None before the first policy."""
        if self._compile is None:
            return None
        if workload not in self._pushes:
            snapshot = self._compile(workload)
            self._pushes[workload] = Push(snapshot.version, snapshot.revision, encode(snapshot))
        return self._pushes[workload]

    def in_force(self) -> list[Subscriber]:
        """Return the connected subscribers that have acknowledged the current snapshot."""
        return [
            subscriber
            for subscriber in self._by_id.values()
            if subscriber.connected
            and (push := self.current(subscriber.identity.workload)) is not None
            and subscriber.acknowledged == push.version
        ]

    def _forget(self) -> None:
        gone = [name for name, subscriber in self._by_id.items() if not subscriber.connected]
        for name in gone[: max(0, len(self._by_id) - MAX_REMEMBERED)]:
            del self._by_id[name]
