"""Every kind of fault with what it may cost, and the order in which they are done."""

from __future__ import annotations

import asyncio
import random
import signal
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from tests.soak import acts
from tests.soak.acts import Act, freezing, killing, mode, slowing
from tests.soak.lab import Lab
from tests.soak.ledger import Excuse, Fault
from tests.soak.questions import Kind, Outcome

STEP_S: Final = 7200.0
TRIES: Final = 20
TRY_AGAIN_S: Final = 0.25


@dataclass(frozen=True, slots=True)
class Cost:
    """What a fault may cost: which outcomes, calls that go up twice, and for how long after it."""

    excuses: tuple[Excuse, ...] = ()
    doubles: bool = False
    grace_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Trouble:
    """One kind of fault. Without an `end`, what was done mends by itself."""

    name: str
    cost: Cost
    begin: Act
    end: Act | None = None
    lasts_s: tuple[float, float] = (0.0, 0.0)


_ENVOY: Final = Cost(
    (Excuse(frozenset((Outcome.LOST, Outcome.CUT, Outcome.REFUSED, Outcome.AS_IS))),), True, 6.0
)
# A merged call dies with the processor that made it, and so does the stream that it tells others.
_PROCESSOR: Final = Cost(
    (
        Excuse(frozenset((Outcome.AS_IS,))),
        Excuse(frozenset((Outcome.REFUSED,)), frozenset((Kind.EMBED, Kind.ARRAY))),
        # Who follows a stream gets an error in the place of its beginning, or no more of it.
        Excuse(frozenset((Outcome.REFUSED, Outcome.CUT)), frozenset((Kind.CROWD,))),
    ),
    True,
    # It is started again within that time.
    10.0,
)
_PROVIDER: Final = Cost((Excuse(frozenset((Outcome.REFUSED, Outcome.CUT))),), True, 12.0)
# Turns are numbered by the time of day.
_CLOCK: Final = Cost((Excuse(frozenset((Outcome.DISORDERED,))),), True, 2.0)
_TWICE: Final = Cost(doubles=True, grace_s=2.0)
_FREE: Final = Cost()


def troubles(lab: Lab) -> Sequence[Trouble]:
    """Return every kind of fault that can be done in this lab."""
    found = [*_of_the_sidecar(), *_of_others()]
    if lab.can_fill:
        found.append(Trouble("disk full", _TWICE, acts.fill_disk, acts.free_disk, (1, 3)))
    if lab.clock.works:
        back, forward = acts.step_clock(-STEP_S), acts.step_clock(STEP_S)
        found.append(Trouble("clock put forward", _CLOCK, forward, acts.step_clock(0), (4, 7)))
        found.append(Trouble("clock put back", _CLOCK, back, acts.step_clock(0), (4, 7)))
    return found


def _of_the_sidecar() -> list[Trouble]:
    stopping = killing("processor", one=True, number=signal.SIGTERM)
    return [
        Trouble("processors killed", _PROCESSOR, killing("processor")),
        Trouble("a processor killed", _PROCESSOR, killing("processor", one=True)),
        Trouble("a processor stopped", _PROCESSOR, stopping),
        Trouble("a processor frozen", _PROCESSOR, *freezing("processor", one=True), (4, 6)),
        Trouble("processors slowed", _PROCESSOR, slowing("processor")),
        Trouble("Envoy killed", _ENVOY, killing("envoy")),
        Trouble("Envoy frozen", _TWICE, *freezing("envoy"), (1, 3)),
        Trouble("Envoy slowed", _TWICE, slowing("envoy")),
        Trouble("agent killed", _FREE, killing("agent")),
        Trouble("agent frozen", _FREE, *freezing("agent"), (3, 6)),
    ]


def _of_others() -> list[Trouble]:
    return [
        Trouble("Redis killed", _TWICE, acts.end_redis, acts.start_redis, (1, 4)),
        Trouble("Redis frozen", _TWICE, *freezing("redis"), (2, 5)),
        Trouble("Redis slowed", _TWICE, slowing("redis")),
        Trouble("Redis emptied", _TWICE, acts.empty_redis),
        Trouble(
            "PostgreSQL killed",
            _FREE,
            lambda lab, _: lab.postgres.stop(),
            lambda lab, _: lab.postgres.start(),
            (2, 5),
        ),
        Trouble(
            "PostgreSQL frozen",
            _FREE,
            lambda lab, _: lab.postgres.freeze(),
            lambda lab, _: lab.postgres.thaw(),
            (3, 6),
        ),
        Trouble(
            "control plane killed",
            _FREE,
            acts.end_control_plane,
            acts.start_control_plane,
            (2, 6),
        ),
        Trouble("control plane frozen", _FREE, *freezing("control-plane"), (3, 6)),
        Trouble("provider killed", _PROVIDER, acts.end_provider, acts.start_provider, (0.2, 2)),
        Trouble("provider frozen", _PROVIDER, *freezing("provider"), (1, 4)),
        Trouble("provider slowed", Cost(doubles=True, grace_s=5), mode(delay_ms=400), mode(), (4, 6)),
        Trouble("provider refuses", _PROVIDER, mode(refuse=0.5), mode(), (2, 4)),
        Trouble("provider breaks off", _PROVIDER, mode(reset=0.3), mode(), (2, 4)),
        Trouble("certificates renewed", _PROVIDER, acts.renew_certificates),
        # What was asked while another policy held may be asked again under the next.
        Trouble("policy changed", _TWICE, acts.change_policy),
        Trouble("policy rolled back", _TWICE, acts.roll_back),
    ]


def ordered(found: Sequence[Trouble], chance: random.Random) -> Iterator[Trouble]:
    """Yield faults for ever: all of them in one order, then all in another."""
    while True:
        yield from chance.sample(found, len(found))


class Order:
    """Does faults one after the other, with rests between, and writes down what was done."""

    def __init__(self, lab: Lab, chance: random.Random, only: Sequence[str] = ()) -> None:
        self.done: list[Fault] = []
        self._lab = lab
        self._chance = chance
        self._troubles = [one for one in troubles(lab) if not only or any(word in one.name for word in only)]

    async def run(self, until: float, rest_s: tuple[float, float]) -> None:
        """Do faults until that monotonic time, each one whole."""
        for trouble in ordered(self._troubles, self._chance):
            rest = self._chance.uniform(*rest_s)
            lasts = self._chance.uniform(*trouble.lasts_s)
            if time.monotonic() + rest + lasts + rest_s[1] > until:
                return
            await asyncio.sleep(rest)
            await self._do(trouble, lasts)

    async def _do(self, trouble: Trouble, lasts_s: float) -> None:
        cost = trouble.cost
        fault = Fault(trouble.name, time.monotonic(), cost.excuses, cost.doubles, cost.grace_s)
        # Not over yet, however long it takes.
        fault.over_at = float("inf")
        self.done.append(fault)
        try:
            await asyncio.to_thread(trouble.begin, self._lab, self._chance)
            if trouble.end is not None:
                await asyncio.sleep(lasts_s)
        except OSError as error:
            # A fault that cannot be done says nothing of the mesh, and is told.
            fault.failure = f"{type(error).__name__}: {error}"
        finally:
            if trouble.end is not None:
                await asyncio.to_thread(self._mend, trouble.end, fault)
            fault.over_at = time.monotonic()
        print(f"{fault.over_at - fault.began_at:6.1f} s  {fault.name} {fault.failure}", flush=True)

    def _mend(self, end: Act, fault: Fault) -> None:
        for _ in range(TRIES):
            try:
                end(self._lab, self._chance)
            except OSError as error:
                fault.failure = f"{type(error).__name__}: {error}"
                time.sleep(TRY_AGAIN_S)
            else:
                return
