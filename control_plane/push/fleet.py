"""The fleet: which sidecar is due what, and what becomes of a revision by their answers.

A revision is whole or not at all. It goes to a few sidecars first, then to all (`rollout`); halted, it is
taken back from those that have it. Until it is out, and for ever when it is halted, everybody else holds
the one before, sidecars that connect meanwhile included. Belongs to one event loop; knows no stream.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import datetime
from typing import Final, Protocol

from structlog.typing import FilteringBoundLogger

from control_plane.push.editions import Edition, Editions
from control_plane.push.parcels import Parcel, Parcels
from control_plane.push.policy import Policy
from control_plane.push.rollout import Candidate, Phase, Rollout, choose_wave
from control_plane.push.sidecars import Identity, Refusal, Sidecar, Told
from control_plane.push.views import Released, SidecarView

# A burst of changes is pushed as its first, and then as the newest at most so often.
PAUSE_S: Final = 0.05
TICK_S: Final = 0.001
# Sidecars that have gone are shown for so long, and no more than so many.
GONE_FOR_S: Final = 3600.0
MAX_KNOWN: Final = 10_000
FORGET_EVERY_S: Final = 60.0
MAX_REFUSED: Final = 1_000


class Alarm(Protocol):
    """What `later` returns."""

    def cancel(self) -> None:
        """Do not call any more."""


Listener = Callable[[Told, Told], None]


class Fleet:
    """The sidecars of one control plane, and the policy that they are to follow.

    Args:
        clock: a monotonic clock, in seconds.
        now: the time of day.
        later: calls a function after so many seconds, on the fleet's loop.
        on_halt: told once of each revision that is halted, and why.
        on_acknowledged: told how many seconds after its publishing a revision is in force at a sidecar.
        mark: random bytes of this process.
        log: where revisions and refusals are told.
        replica: what people call this replica of the control plane, where there are several.

    Attributes:
        moves: grows whenever something changes of which sidecars there are and what they hold.
        reports: grows with each report beside their answers.
    """

    def __init__(
        self,
        *,
        clock: Callable[[], float],
        now: Callable[[], datetime],
        later: Callable[[float, Callable[[], None]], Alarm],
        on_halt: Callable[[int, str], None],
        mark: bytes,
        log: FilteringBoundLogger,
        on_acknowledged: Callable[[float], None] = lambda seconds: None,
        replica: str = "",
    ) -> None:
        self.moves = 0
        self.reports = 0
        self._replica = replica
        self._clock = clock
        self._now = now
        self._later = later
        self._on_halt = on_halt
        self._on_acknowledged = on_acknowledged
        self._mark = mark
        self._log = log
        self._sidecars: dict[str, Sidecar] = {}
        self._editions = Editions()
        self._next: Policy | None = None
        self._refused: dict[str, Refusal] = {}  # contents that halted a revision
        self._listeners: list[Listener] = []
        self._unheard = False  # told once
        self._alarm: Alarm | None = None
        self._published_s = 0.0
        self._started_s = 0.0
        self._next_s = 0.0
        self._forgot_s = 0.0

    def __repr__(self) -> str:
        connected = sum(sidecar.connected for sidecar in self._sidecars.values())
        return f"<Fleet {connected} connected of {len(self._sidecars)}, {self._editions}>"

    # The policy.

    def publish(self, policy: Policy) -> None:
        """Bring `policy` into force. Of a burst the newest counts.

        One with a lower revision than the newest is a way back that is taken at once.
        """
        self._next, self._next_s = policy, self._clock()
        self.moves += 1
        self._advance()

    def _advance(self) -> None:
        """Go on as far as possible, and come back when the clock allows more."""
        now_s = self._clock()
        newest = self._editions.newest
        if newest is not None:
            newest.rollout.tick(now_s)
        policy = self._next
        if policy is not None and now_s >= self._may_start_s(policy):
            self._next = None
            self._start(policy, now_s)
            newest = self._editions.newest
        for sidecar in self._sidecars.values():
            if sidecar.connected and self._due(sidecar) is not None:
                sidecar.wake()
        due_s = newest.rollout.deadline_s if newest is not None else None
        if self._next is not None:
            due_s = self._may_start_s(self._next)
        if self._alarm is not None:
            self._alarm.cancel()
        # Sums of times are not exact: an alarm that comes a hair too early must not come again at once.
        after_s = max(TICK_S, due_s - now_s) if due_s is not None else None
        self._alarm = self._later(after_s, self._advance) if after_s is not None else None

    def _may_start_s(self, policy: Policy) -> float:
        """Return when `policy` may take over from the one on its way."""
        newest = self._editions.newest
        if newest is None or policy.revision <= newest.revision:
            return 0.0
        # A wave is not cut short: with a change every few milliseconds none would ever come to its end.
        return newest.rollout.deadline_s or self._started_s + PAUSE_S

    def _start(self, policy: Policy, now_s: float) -> None:
        self.moves += 1
        newest = self._editions.newest
        back = newest is not None and policy.revision <= newest.revision
        if back and self._editions.go_back(policy.revision):
            return
        parcels = Parcels(policy, self._mark)
        connected = [sidecar for sidecar in self._sidecars.values() if sidecar.connected]
        try:
            wanted = [(sidecar, parcels.of(sidecar.identity.workload)) for sidecar in connected]
        except Exception as error:
            # A defect, but of this revision: the one before stays whole.
            self._log.error("a revision cannot be compiled", revision=policy.revision, error=error)
            self._on_halt(policy.revision, f"it cannot be compiled ({type(error).__name__}); see the log")
            return
        due: dict[str, list[Candidate]] = {}
        for sidecar, parcel in wanted:
            if sidecar.due(parcel):
                candidate = Candidate(sidecar.identity.sidecar, sidecar.answered_s)
                due.setdefault(parcel.content, []).append(candidate)
        contents = {parcel.content for _, parcel in wanted}
        rollout = Rollout(policy.revision, () if back else choose_wave(due), now_s, contents)
        self._editions.add(Edition(parcels, rollout, self._next_s), now_s)
        self._started_s = now_s
        self._log.info("revision published", revision=policy.revision, first=len(rollout.wave))
        for sidecar, parcel in wanted:
            if sidecar.holds == parcel.content:
                rollout.accepted(sidecar.identity.sidecar, parcel.content, now_s)
        earlier = next((self._refused[content] for content in contents if content in self._refused), None)
        if earlier is not None:
            self._halt(rollout, f"refused before, as {earlier.sent.version}: {earlier.reason}")

    def _halt(self, rollout: Rollout, reason: str) -> None:
        rollout.halt(reason)
        self._log.error(
            "revision halted; the one before stays in force", revision=rollout.revision, reason=rollout.reason
        )
        self._on_halt(rollout.revision, rollout.reason)

    # The sidecars.

    def connect(self, identity: Identity, wake: Callable[[], None]) -> Sidecar:
        """Register a connection; `wake` is called when `next_message` may have something for it.

        An earlier connection of the same sidecar is superseded: it is marked as gone and woken.
        """
        now_s = self._clock()
        sidecar = Sidecar(identity, self._now(), wake)
        earlier = self._sidecars.pop(identity.sidecar, None)
        if earlier is not None:
            sidecar.take_over(earlier)
            earlier.connected = False
            earlier.wake()
        self._sidecars[identity.sidecar] = sidecar
        self.moves += 1
        self._forget(now_s)
        return sidecar

    def disconnect(self, sidecar: Sidecar) -> None:
        """Mark `sidecar` as gone."""
        if not sidecar.connected:
            return
        sidecar.connected, sidecar.gone_s = False, self._clock()
        self.moves += 1
        if sidecar.told.uses:
            # Of a use of now, which what has gone has no more.
            self.told(sidecar, replace(sidecar.told, uses={}))
        newest = self._editions.newest
        if newest is not None and self._sidecars.get(sidecar.identity.sidecar) is sidecar:
            before = newest.rollout.phase
            if newest.rollout.gone(sidecar.identity.sidecar, sidecar.gone_s) is not before:
                self._advance()

    def next_message(self, sidecar: Sidecar) -> bytes | None:
        """Return what `sidecar` is to be sent now, and count it as sent; None when there is nothing."""
        parcel = self._due(sidecar)
        if parcel is not None:
            self.moves += 1
            return sidecar.send(parcel)
        return sidecar.questions.popleft() if sidecar.questions else None

    def answering(self) -> frozenset[str]:
        """Return the sidecars that understand questions and are connected."""
        return frozenset(
            name for name, sidecar in self._sidecars.items() if sidecar.connected and sidecar.identity.answers
        )

    def ask(self, names: Iterable[str], message: bytes) -> None:
        """Have each of these sidecars sent a message that asks it something."""
        for name in names:
            sidecar = self._sidecars[name]
            sidecar.questions.append(message)
            sidecar.wake()

    def acknowledge(self, sidecar: Sidecar, version: str) -> None:
        """Take in that `version` is in force at `sidecar`."""
        now_s = self._clock()
        again = sidecar.acknowledged == version
        sent = sidecar.accept(version, now_s)
        self.moves += 1
        if sent is None or again:
            return
        moved = False
        for edition in self._editions.with_content(sent.content):
            if edition.revision == sent.revision:
                self._on_acknowledged(now_s - edition.published_s)
            before = edition.rollout.phase
            moved |= edition.rollout.accepted(sidecar.identity.sidecar, sent.content, now_s) is not before
        if moved:
            self._advance()

    def refuse(self, sidecar: Sidecar, version: str, reason: str) -> None:
        """Take in that `sidecar` refuses `version`."""
        now_s, identity = self._clock(), sidecar.identity
        refusal = sidecar.refuse(version, reason, now_s)
        self.moves += 1
        self._log.warning("snapshot refused", sidecar=identity.sidecar, version=version, reason=reason)
        if refusal is None:
            return
        content = refusal.sent.content
        editions = [
            edition
            for edition in self._editions.with_content(content, identity.workload)
            if edition.rollout.phase is not Phase.HALTED
        ]
        after = {edition.rollout.refused(identity.sidecar, content, reason, now_s) for edition in editions}
        if Phase.HALTED in after:
            self._refused[content] = refusal
            if len(self._refused) > MAX_REFUSED:
                del self._refused[next(iter(self._refused))]
            # Whole or not at all: each revision that brings it.
            for edition in editions:
                self._halt(edition.rollout, reason)
        self._advance()

    def told(self, sidecar: Sidecar, told: Told) -> None:
        """Take in what `sidecar` reports beside its answers; of a connection that was superseded nothing."""
        if self._sidecars.get(sidecar.identity.sidecar) is not sidecar:
            # The newer one goes on from what this had told, so that it would be counted twice.
            return
        before, sidecar.told = sidecar.told, told
        self.reports += 1
        self.moves += before.envoy is not told.envoy
        for listener in self._listeners:
            try:
                listener(before, told)
            except Exception as error:
                # Whoever only looks on keeps no sidecar from its policy.
                if not self._unheard:
                    self._log.error("reports are not heard", error=type(error).__name__, exc_info=True)
                self._unheard = True

    def listen(self, listener: Listener) -> None:
        """Have `listener` told of every report: what the sidecar had told before, and what it tells now."""
        self._listeners.append(listener)

    def released(self) -> list[Released]:
        """Return what each sidecar counted of Releases."""
        return [
            Released(name, sidecar.told.epoch, sidecar.told.releases, sidecar.told.compared)
            for name, sidecar in self._sidecars.items()
        ]

    def obeyed(self) -> bool:
        """Return whether every connected sidecar holds the newest policy that is not halted."""
        return all(self._view(sidecar).in_force for sidecar in self._sidecars.values() if sidecar.connected)

    def sidecars(self) -> list[SidecarView]:
        """Return every sidecar that is connected or not long gone."""
        return [self._view(sidecar) for sidecar in self._sidecars.values()]

    def _due(self, sidecar: Sidecar) -> Parcel | None:
        identity = sidecar.identity
        parcel = self._editions.offered(identity.sidecar, identity.workload, self._refused)
        if parcel is None or sidecar.due(parcel):
            return parcel
        if sidecar.holds == parcel.content:
            sidecar.forgive(parcel.revision)
        return None

    def _view(self, sidecar: Sidecar) -> SidecarView:
        identity, refusal, told = sidecar.identity, sidecar.refusal, sidecar.told
        newest = self._editions.hoped_for(identity.workload)
        holds_newest = newest is not None and sidecar.holds == newest.content
        pushed, acknowledged = sidecar.pushed, sidecar.acknowledged
        if newest is not None and holds_newest:
            # A revision that changes nothing for this workload is not sent, and is in force all the same.
            acknowledged = newest.version
            if sidecar.will_hold == newest.content and (refusal is None or refusal.sent.version != pushed):
                pushed = newest.version
        return SidecarView(
            id=identity.sidecar,
            workload=identity.workload,
            connected=sidecar.connected,
            connected_at=sidecar.connected_at,
            labels=identity.labels,
            build=identity.build,
            pushed=pushed,
            acknowledged=acknowledged,
            nack=refusal.reason if refusal is not None else None,
            serving=sidecar.connected and bool(sidecar.holds),
            in_force=sidecar.connected and holds_newest and self._next is None,
            envoy=told.envoy,
            envoy_version=told.envoy_version,
            epoch=told.epoch,
            versions=told.versions,
            cache=told.cache,
            replica=self._replica,
        )

    def _forget(self, now_s: float) -> None:
        if len(self._sidecars) <= MAX_KNOWN and now_s < self._forgot_s + FORGET_EVERY_S:
            return
        self._forgot_s = now_s
        gone = [name for name, sidecar in self._sidecars.items() if not sidecar.connected]
        gone.sort(key=lambda name: self._sidecars[name].gone_s)
        excess = len(self._sidecars) - MAX_KNOWN
        for index, name in enumerate(gone):
            if index < excess or self._sidecars[name].gone_s + GONE_FOR_S <= now_s:
                del self._sidecars[name]
