"""One sidecar as the fleet keeps it: what it was given, what it answered (plain data, no decision).

An answer names a version; a version means a content. What a sidecar *will hold* once it has worked off what
was sent is what is compared with what it is to hold, so that nothing is sent twice.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from control_plane.push.parcels import Parcel
from control_plane.push.views import EnvoyState, ReleaseCounts, TierStatistics, VersionStatistics
from control_plane.releases.counts import Compared
from ext_proc.contract.cache import CacheStatistics
from ext_proc.contract.snapshot import content_digest
from ext_proc.contract.uses import Uses

REMEMBERED_VERSIONS: Final = 8
REMEMBERED_REFUSALS: Final = 16
# Of a sidecar that reads no more, the oldest are forgotten: nobody waits for their answers any longer.
WAITING_QUESTIONS: Final = 16


@dataclass(frozen=True, slots=True)
class Identity:
    """What a sidecar says about itself when it connects.

    `unpacks`: it reads zlib. `keeps`: what it holds need not be sent again. `answers`: it understands
    questions.
    """

    sidecar: str
    workload: str
    build: str = ""
    in_force: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    unpacks: bool = False
    keeps: bool = False
    answers: bool = False


@dataclass(frozen=True, slots=True)
class Sent:
    """A version that was sent, and what it means."""

    version: str
    revision: int
    content: str


@dataclass(frozen=True, slots=True)
class Refusal:
    """A version that was refused, and why."""

    sent: Sent
    reason: str


@dataclass(frozen=True, slots=True)
class Told:
    """What a sidecar reports beside its answers."""

    envoy: EnvoyState = EnvoyState.UNKNOWN
    envoy_version: str = ""
    epoch: str = ""
    versions: tuple[VersionStatistics, ...] = ()
    releases: tuple[ReleaseCounts, ...] = ()
    compared: Mapping[str, Compared] = field(default_factory=dict)
    tiers: tuple[TierStatistics, ...] = ()
    cache: CacheStatistics = field(default_factory=CacheStatistics)
    uses: Uses = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class Sidecar:
    """One connection of a sidecar, and after it the memory of it.

    Attributes:
        wake: called when it may be due something.
        pushed: the last version that was sent.
        acknowledged: the last version that it said it holds.
        holds: the content that it said it holds, "" before its first answer.
        will_hold: what it will hold when it has answered all that was sent and refuses none of it.
        refusal: the last refusal, until it follows a later revision.
        refusals: by content, never sent to this sidecar again.
        answered_s: when it last answered, on the fleet's clock.
        gone_s: when it left, on the same clock.
        questions: messages that ask it something, not sent yet.
    """

    identity: Identity
    connected_at: datetime
    wake: Callable[[], None]
    connected: bool = True
    pushed: str = ""
    acknowledged: str = ""
    holds: str = ""
    will_hold: str = ""
    refusal: Refusal | None = None
    refusals: dict[str, Refusal] = field(default_factory=dict)
    answered_s: float = 0.0
    gone_s: float = 0.0
    told: Told = Told()
    questions: deque[bytes] = field(default_factory=lambda: deque(maxlen=WAITING_QUESTIONS))
    _sent: dict[str, Sent] = field(default_factory=dict)

    def due(self, parcel: Parcel) -> bool:
        """Return whether `parcel` is to be sent."""
        return parcel.content != self.will_hold and parcel.content not in self.refusals

    def send(self, parcel: Parcel) -> bytes:
        """Return the message that brings `parcel`, and count it as sent."""
        held = content_digest(self.identity.in_force)
        kept = not self.pushed and self.identity.keeps and held == parcel.digest
        self.pushed, self.will_hold = parcel.version, parcel.content
        self._sent[parcel.version] = Sent(parcel.version, parcel.revision, parcel.content)
        if len(self._sent) > REMEMBERED_VERSIONS:
            del self._sent[next(iter(self._sent))]
        return parcel.message(packed=self.identity.unpacks, kept=kept)

    def accept(self, version: str, now_s: float) -> Sent | None:
        """Take in that `version` is in force there; return what that is when it was sent on this stream."""
        self.acknowledged, self.answered_s = version, now_s
        sent = self._sent.get(version)
        if sent is not None:
            self.holds = sent.content
            self.forgive(sent.revision)
        return sent

    def refuse(self, version: str, reason: str, now_s: float) -> Refusal | None:
        """Take in that `version` was refused; return the refusal when it was sent on this stream."""
        self.answered_s = now_s
        sent = self._sent.get(version)
        if sent is None:
            return None
        refusal = self.refusal = self.refusals[sent.content] = Refusal(sent, reason)
        if len(self.refusals) > REMEMBERED_REFUSALS:
            del self.refusals[next(iter(self.refusals))]
        if self.will_hold == sent.content:
            self.will_hold = self.holds
        return refusal

    def forgive(self, revision: int) -> None:
        """Take in that it follows `revision`: what it refused of earlier ones is no news any more."""
        # An older version is acknowledged again when its exchanges end: that undoes no refusal.
        if self.refusal is not None and revision > self.refusal.sent.revision:
            self.refusal = None

    def take_over(self, earlier: Sidecar) -> None:
        """Remember what an earlier connection of the same sidecar said."""
        self.answered_s, self.told = earlier.answered_s, earlier.told
        if earlier.identity.build == self.identity.build:
            # Another build may read what that one could not.
            self.refusal, self.refusals = earlier.refusal, earlier.refusals
