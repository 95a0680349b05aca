"""Fleets for tests: time stands still until it is moved, and sidecars say what the test has them say."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

import structlog

from control_plane.push.fleet import Fleet
from control_plane.push.policy import Policy
from control_plane.push.sidecars import Identity, Sidecar
from control_plane.push.views import SidecarView
from ext_proc.contract import push_pb2
from ext_proc.contract.snapshot import Backend, CredentialRef, Snapshot, content_version

NOON = datetime(2025, 6, 1, 12, tzinfo=UTC)


def policy(
    revision: int,
    text: str = "",
    *,
    of: Mapping[str, str] | None = None,
    secrets: Mapping[tuple[str, str], bytes] | None = None,
) -> Policy:
    """Return a policy whose content differs by `text`, and by what `of` says of a workload.

    With `secrets` its one Backend names the Secret `openai`, key `k`.
    """

    def compile_for(workload: str) -> Snapshot:
        said = (of or {}).get(workload, text)
        credential = CredentialRef("secret", "openai", "k") if secrets is not None else None
        backend = Backend("b", f"http://provider/{said}", credential=credential)
        blank = Snapshot("", revision, workload, backends={"b": backend})
        return replace(blank, version=content_version(blank))

    return Policy(revision, compile_for, secrets or {})


class Alarms:
    """A clock that is moved by hand, and what is to happen on it."""

    def __init__(self) -> None:
        self.now_s = 1000.0
        self._due: list[Alarm] = []

    def later(self, after_s: float, call: Callable[[], None]) -> Alarm:
        """Call `call` when the clock has moved that far."""
        alarm = Alarm(self.now_s + after_s, call)
        self._due.append(alarm)
        return alarm

    def move(self, seconds: float) -> None:
        """Move the clock, stopping at each alarm on the way."""
        end_s = self.now_s + seconds
        while due := [alarm for alarm in self._due if not alarm.cancelled and alarm.at_s <= end_s]:
            alarm = min(due, key=lambda item: item.at_s)
            alarm.cancelled = True
            self.now_s = max(self.now_s, alarm.at_s)
            alarm.call()
        self._due = [alarm for alarm in self._due if not alarm.cancelled]
        self.now_s = end_s


@dataclass(slots=True)
class Alarm:
    """One call that is to come."""

    at_s: float
    call: Callable[[], None]
    cancelled: bool = False

    def cancel(self) -> None:
        """Do not call."""
        self.cancelled = True


@dataclass(slots=True)
class Scene:
    """A fleet, its clock, and what it said."""

    alarms: Alarms = field(default_factory=Alarms)
    halted: list[tuple[int, str]] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    fleet: Fleet = field(init=False)

    def __post_init__(self) -> None:
        self.fleet = Fleet(
            clock=lambda: self.alarms.now_s,
            now=lambda: NOON,
            later=self.alarms.later,
            on_halt=lambda revision, reason: self.halted.append((revision, reason)),
            mark=b"mark",
            log=structlog.get_logger(),
            on_acknowledged=self.seconds.append,
        )

    def actor(self, name: str, workload: str = "web", **identity: object) -> Actor:
        """Let a sidecar connect."""
        return Actor(self, replace(Identity(name, workload), **identity))  # type: ignore[arg-type]

    def publish(self, *policies: Policy) -> None:
        """Publish each, the next when the burst of the one before is over."""
        for item in policies:
            self.fleet.publish(item)
            self.alarms.move(0.4)


class Actor:
    """A sidecar that does what it is told."""

    def __init__(self, scene: Scene, identity: Identity) -> None:
        self._fleet = scene.fleet
        self.woken = 0
        self.sidecar: Sidecar = self._fleet.connect(identity, self._wake)

    def _wake(self) -> None:
        self.woken += 1

    @property
    def view(self) -> SidecarView:
        """What the fleet shows of it."""
        name = self.sidecar.identity.sidecar
        return next(view for view in self._fleet.sidecars() if view.id == name)

    def receive(self) -> push_pb2.Snapshot | None:
        """Return what it is sent now, or None."""
        message = self._fleet.next_message(self.sidecar)
        return push_pb2.Snapshot.FromString(message) if message is not None else None

    def revision(self) -> int | None:
        """Receive; return the revision of what came."""
        message = self.receive()
        return message.revision if message is not None else None

    def ack(self, version: str = "") -> None:
        """Acknowledge a version, or what came last."""
        self._fleet.acknowledge(self.sidecar, version or self.sidecar.pushed)

    def nack(self, reason: str = "no") -> None:
        """Refuse what came last."""
        self._fleet.refuse(self.sidecar, self.sidecar.pushed, reason)

    def follow(self) -> int | None:
        """Receive and acknowledge; return the revision of what came."""
        revision = self.revision()
        if revision is not None:
            self.ack()
        return revision

    def leave(self) -> None:
        """Go."""
        self._fleet.disconnect(self.sidecar)


def resting_fleet() -> Fleet:
    """Return a fleet whose clock stands still."""
    return Scene().fleet
