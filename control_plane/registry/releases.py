"""How far each Release is: begun with its document, moved by people and by its numbers.

Each move is a revision, so that replicas and sidecars get it like any other change. Every replica folds in
what it saw of its own sidecars, in one transaction each; the store lets one writer in at a time, so none of
them has to be the one that decides.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

from control_plane.registry.bulletins import tell
from control_plane.registry.errors import NotFoundError, ReleaseConflictError, StoreUnavailableError
from control_plane.registry.ledger import Change, Ledger
from control_plane.registry.ports import Reading
from control_plane.registry.state import renumbered
from control_plane.registry.values import ITSELF, Actor, Head
from control_plane.releases.analysis import Analysis, Outcome, Verdict, folded, judged
from control_plane.releases.asking import Wanted
from control_plane.releases.counts import NEITHER, NOT_COMPARED, Both, Compared
from control_plane.releases.events import Basis
from control_plane.releases.gates import Gate, gates_of
from control_plane.releases.machine import (
    Action,
    ActionRefusedError,
    Phase,
    Plan,
    Standing,
    acted,
    advanced,
    begun,
    settled,
    waiting_for,
)
from control_plane.releases.queries import Answer, with_queries
from control_plane.releases.wire import analysis_bytes, analysis_of
from control_plane.resources.compile import Progress
from control_plane.resources.kinds.release import ReleaseSpec
from ext_proc.contract.comparisons import NO_LIKENESS, Likeness

_STOPPING: Final = frozenset((Action.PAUSE, Action.ABORT))
_MOVING: Final = frozenset((Phase.PENDING, Phase.PROGRESSING))
_WITHDRAWN: Final = frozenset((Phase.ROLLING_BACK, Phase.ROLLED_BACK, Phase.ABORTED))


@dataclass(frozen=True, slots=True)
class Judged:
    """How far a Release is, what it waits for, and what is known of its versions at this step."""

    standing: Standing
    reason: str
    verdict: Verdict
    counts: Both
    likeness: Likeness = NO_LIKENESS


@dataclass(frozen=True, slots=True)
class _Heard:
    """What was heard of a Release since the last look."""

    served: Both = NEITHER
    compared: Compared = NOT_COMPARED

    def counts(self, standing: Standing) -> Both:
        """Return what is judged: in the shadow the calls that both were asked, at a step those of callers."""
        return self.served if standing.step else self.compared.shadowed


_NOTHING_HEARD: Final = _Heard()


@dataclass(frozen=True, slots=True)
class _Looked:
    """What one look makes of a Release, whether its numbers are new, and on what it was decided."""

    standing: Standing
    analysis: Analysis
    basis: Basis
    is_news: bool


class Releases:
    """The Releases of this installation. `answers`: what the queries of each came to, as heard here."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self.answers: Mapping[str, Sequence[Answer]] = {}

    async def begin_missing(self) -> None:
        """Let Releases begin that were applied to a build which knew no standings."""
        head = self._ledger.state.head
        if head.documents.releases.keys() <= head.releases.keys():
            return
        async with self._ledger.change() as change:
            head = change.state.head
            names = [name for name in head.documents.releases if name not in head.releases]
            if names:
                await begin_releases(change, names)
                targets = ", ".join(f"Release/{name}" for name in names)
                number = await change.add_plain_revision(ITSELF, "release", targets, "begun")
                change.state = renumbered(change.state, number)

    async def act(self, name: str, action: Action, actor: Actor) -> Standing:
        """Promote, pause, resume or abort.

        Raises:
            NotFoundError: there is no such Release.
            ReleaseConflictError: it has ended, began anew since the request came, or has moved since; pause
                and abort stop it wherever it has got to.
        """
        seen = _standing(self._ledger.state.head, name)
        async with self._ledger.change() as change:
            standing = _standing(change.state.head, name)
            moved_on = action not in _STOPPING and standing.generation != seen.generation
            if moved_on or standing.begun != seen.begun:
                raise ReleaseConflictError(name, "moved in the meantime; look at it again")
            spec = _spec(change.state.head, name)
            plan = plan_of(spec)
            try:
                moved = acted(standing, plan, action, actor.name, change.at.timestamp())
            except ActionRefusedError as refused:
                raise ReleaseConflictError(name, str(refused)) from None
            analysis = analysis_of(await change.tx.evidence(name))
            if moved.step != standing.step:
                await change.tx.put_evidence(name, analysis_bytes(analysis.at_next_step()))
            verdict = self._verdict(change.state.head, name, analysis)
            await _move(change, {name: (moved, Basis(verdict, analysis.step))}, actor, str(action))
        return moved

    async def judged(self, name: str) -> Judged:
        """Return how far a Release is and what its numbers say; while the database is away, no numbers.

        Raises:
            NotFoundError: there is no such Release.
        """
        head = self._ledger.state.head
        standing, spec = _standing(head, name), _spec(head, name)
        try:
            async with self._ledger.look() as reading:
                analysis = analysis_of(await reading.evidence(name))
        except StoreUnavailableError:
            return Judged(standing, standing.reason, Verdict(Outcome.WAIT, standing.reason), NEITHER)
        verdict = self._verdict(head, name, analysis)
        now_s = self._ledger.now().timestamp()
        reason = waiting_for(standing, plan_of(spec), verdict, now_s)
        return Judged(standing, reason, verdict, analysis.step, analysis.likeness)

    async def look(
        self,
        intervals: Mapping[str, Both],
        *,
        obeyed: bool,
        compared: Mapping[str, Compared] = MappingProxyType({}),
    ) -> None:
        """Fold in what the versions of each Release did since the last look here, and let each move.

        `compared` is what sidecars found out of them beside that. `obeyed`: every connected sidecar of this
        replica holds what is in force.
        """
        active = {
            name: standing
            for name, standing in self._ledger.state.head.releases.items()
            if _is_watched(standing)
        }
        news: dict[str, _Heard] = {}
        for name, standing in active.items():
            heard = _Heard(intervals.get(name, NEITHER), compared.get(name, NOT_COMPARED))
            if heard.counts(standing) or heard.compared.likeness:
                news[name] = heard
        if not news and not await self._would_move(active, obeyed=obeyed):
            return
        async with self._ledger.change() as change:
            moved: dict[str, tuple[Standing, Basis]] = {}
            for name, standing in change.state.head.releases.items():
                if not _is_watched(standing):
                    continue
                heard = news.get(name, _NOTHING_HEARD)
                looked = await self._look(
                    change.state.head, name, change.tx, change.at.timestamp(), heard, obeyed=obeyed
                )
                if looked.is_news or looked.standing.step != standing.step:
                    await change.tx.put_evidence(name, analysis_bytes(looked.analysis))
                if looked.standing is not standing:
                    moved[name] = looked.standing, looked.basis
            if moved:
                await _move(change, moved, ITSELF, "release")

    async def _would_move(self, names: Iterable[str], *, obeyed: bool) -> bool:
        head, now_s = self._ledger.state.head, self._ledger.now().timestamp()
        if not names:
            return False
        async with self._ledger.look() as reading:
            for name in names:
                looked = await self._look(head, name, reading, now_s, _NOTHING_HEARD, obeyed=obeyed)
                if looked.standing is not head.releases[name]:
                    return True
        return False

    async def _look(
        self, head: Head, name: str, reading: Reading, now_s: float, heard: _Heard, *, obeyed: bool
    ) -> _Looked:
        standing, spec = head.releases[name], _spec(head, name)
        analysis = before = analysis_of(await reading.evidence(name))
        if interval := heard.counts(standing):
            analysis = folded(analysis, interval, _gates(head, spec), standing.share / 100)
        if heard.compared.likeness:
            analysis = replace(analysis, likeness=analysis.likeness + heard.compared.likeness)
        is_news = analysis is not before
        verdict = self._verdict(head, name, analysis)
        basis = Basis(verdict, analysis.step)
        moved = advanced(standing, plan_of(spec), verdict, now_s)
        moved = settled(moved, obeyed=obeyed and moved is standing, at_s=now_s)
        if moved.step != standing.step:
            analysis = analysis.at_next_step()
        return _Looked(moved, analysis, basis, is_news)

    def _verdict(self, head: Head, name: str, analysis: Analysis) -> Verdict:
        standing, spec = head.releases[name], _spec(head, name)
        verdict = judged(analysis, _gates(head, spec), standing.share / 100, spec.gates.min_requests)
        return with_queries(verdict, spec.gates.prometheus, self.answers.get(name, ()))


async def begin_releases(change: Change, names: Iterable[str]) -> None:
    """Let the Releases that were applied with `change` begin, and forget those that were deleted."""
    head = change.state.head
    standings = dict(head.releases)
    started: list[str] = []
    for name in names:
        stored = head.stored.get(("Release", name))
        if stored is None:
            await change.tx.delete_release(name)
            standings.pop(name, None)
            continue
        standings[name] = begun(plan_of(_spec(head, name)), stored.revision, change.at.timestamp())
        await change.tx.put_release(name, standings[name])
        started.append(name)
    change.state = change.state.with_everywhere(releases=MappingProxyType(dict(sorted(standings.items()))))
    for name in started:
        await tell(change, name, head.releases.get(name), Basis())


def wanted_queries(head: Head) -> dict[str, Wanted]:
    """Return the queries to Prometheus of each Release that they may still move."""
    return {
        name: Wanted(standing.begun, spec.gates.prometheus)
        for name, standing in head.releases.items()
        if not standing.has_ended
        and (spec := head.documents.releases.get(name)) is not None
        and spec.gates.prometheus
    }


def progress_of(head: Head) -> dict[str, Progress]:
    """Return how far each Release is, as snapshots are compiled by it."""
    return {
        name: Progress(
            standing.share,
            shadows=standing.step == 0 and standing.phase in _MOVING,
            withdrawn=standing.phase in _WITHDRAWN,
        )
        for name, standing in head.releases.items()
    }


def plan_of(spec: ReleaseSpec) -> Plan:
    """Return what a document asks for."""
    max_wait_ms = spec.gates.max_wait_ms
    max_wait_s = None if max_wait_ms is None else max_wait_ms / 1000
    return Plan(spec.steps, spec.bake_ms / 1000, max_wait_s, shadows=bool(spec.shadow))


async def _move(
    change: Change, moved: Mapping[str, tuple[Standing, Basis]], actor: Actor, action: str
) -> None:
    before = change.state.head.releases
    standings = {**before, **{name: standing for name, (standing, _) in moved.items()}}
    change.state = change.state.with_everywhere(releases=MappingProxyType(standings))
    for name, (standing, basis) in moved.items():
        await change.tx.put_release(name, standing)
        told = f"{standing.phase}, step {standing.step}, {standing.share:g} %: {standing.reason}"
        number = await change.add_plain_revision(actor, action, f"Release/{name}", told)
        change.state = renumbered(change.state, number)
        await tell(change, name, before[name], basis)


def _is_watched(standing: Standing) -> bool:
    return not standing.has_ended and standing.phase is not Phase.PAUSED


def _gates(head: Head, spec: ReleaseSpec) -> tuple[Gate, ...]:
    model = head.documents.models.get(spec.model)
    return gates_of(spec.gates, model.prices if model is not None else None)


def _standing(head: Head, name: str) -> Standing:
    standing = head.releases.get(name)
    if standing is None or name not in head.documents.releases:
        raise NotFoundError(f"Release/{name}")
    return standing


def _spec(head: Head, name: str) -> ReleaseSpec:
    return head.documents.releases[name]
