"""How one snapshot takes over from another: Envoy first, then the processors, the old one last.

Make before break: Envoy serves the union of all snapshots that some exchange may still be decided by. Nothing
here speaks a protocol; the protocols it needs are its own.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Mapping, Sequence
from types import MappingProxyType
from typing import TypeVar

from structlog.typing import FilteringBoundLogger

from ext_proc.agent.ads import RefusedError
from ext_proc.agent.ports import Discovery, Keys, Processors, Reports, Secrets, Warming
from ext_proc.agent.render.clusters import CLUSTER_TYPE, render_clusters
from ext_proc.agent.render.routes import ROUTES_NAME, ROUTES_TYPE, render_routes
from ext_proc.agent.render.secrets import SECRET_TYPE, render_secrets
from ext_proc.agent.resources import ResourceSet, resource_set
from ext_proc.contract.snapshot import CredentialRef, Snapshot, content_digest

# A Backend whose name cannot be resolved must not hold up the policy for all others.
WARMING_LIMIT_S = 5.0
# A processor that hangs is ejected by Envoy; policy goes on without it.
PROCESSORS_LIMIT_S = 2.0
# The first acknowledgement is what readiness waits for. Processors that never come must not hold it up for
# ever: with `failOpen` there is service without them.
FIRST_SERVICE_LIMIT_S = 20.0
# A decision that a processor has just sent is still on its way into Envoy when it says that it is done.
DECISIONS_ARRIVE_S = 0.5
REFUSED_REMEMBERED = 1_000
T = TypeVar("T")


class _SupersededError(Exception):
    """A newer snapshot has come; the one on its way is given up."""


class Rollout:
    """Brings snapshots into force, one at a time, the newest offered first.

    Args:
        discovery: Envoy's side.
        warming: whether Envoy's clusters can be used.
        processors: the processors' side.
        keys: resolves credentials.
        reports: where acknowledgements go.
        keep: keeps a snapshot on disk.
        authorities: PEM certificates that providers are verified against.
        log: where switches and refusals are told.
    """

    def __init__(
        self,
        *,
        discovery: Discovery,
        warming: Warming,
        processors: Processors,
        keys: Keys,
        reports: Reports,
        keep: Callable[[Snapshot], object],
        authorities: bytes,
        log: FilteringBoundLogger,
    ) -> None:
        self._discovery = discovery
        self._warming = warming
        self._processors = processors
        self._keys = keys
        self._reports = reports
        self._keep = keep
        self._authorities = authorities
        self._log = log
        self._in_use: list[Snapshot] = []  # oldest first, the last one is in force
        self._in_service = False
        self._offered: tuple[Snapshot, Secrets] | None = None
        self._refused: dict[str, str] = {}  # by content: another revision of it is not tried either
        self._free_since: dict[str, float] = {}  # by version: when no processor held it any more
        # What was rendered last, of which snapshots and keys: the same is looked at several times a change.
        self._rendered: list[tuple[tuple[Snapshot, ...], Mapping[CredentialRef, str], ResourceSet]] = []
        self._wake = asyncio.Event()
        self._newer = asyncio.Event()  # set while something is offered

    def __repr__(self) -> str:
        return f"Rollout(in_use={[item.version for item in self._in_use]})"

    @property
    def in_force(self) -> Snapshot | None:
        """The snapshot that decides now."""
        return self._in_use[-1] if self._in_use else None

    @property
    def in_service(self) -> bool:
        """Whether Envoy has served a policy, and has asked a processor, at least once."""
        return self._in_service

    def offer(self, snapshot: Snapshot, secrets: Secrets = MappingProxyType({})) -> None:
        """Bring `snapshot` into force as soon as possible; it supersedes what was offered before.

        `secrets` are the providers' keys that came with it: they take over with it, or not at all.
        """
        self._offered = (snapshot, secrets)
        self._newer.set()
        self._wake.set()

    def look_again(self) -> None:
        """Say that a processor may have let go of a version, or that a credential may have changed."""
        self._wake.set()

    def restore(self, snapshot: Snapshot) -> None:
        """Serve `snapshot`, which Envoy accepted in an earlier life, to all at once.

        Raises:
            ValueError: it cannot be rendered.
        """
        self._discovery.publish(self._render([snapshot]))
        self._in_use = [snapshot]
        self._processors.publish(snapshot)
        self._log.info("serving the snapshot kept on disk", version=snapshot.version)

    async def run(self) -> None:
        """Switch until cancelled."""
        if self._in_use:
            # What was kept on disk serves too, however long the control plane is away.
            with contextlib.suppress(_SupersededError):
                await self._wait_for_service()
        while True:
            await self._wake.wait()
            self._wake.clear()
            offered, self._offered = self._offered, None
            self._newer.clear()
            try:
                if offered is not None:
                    await self._bring(*offered)
                await self._let_go()
            except _SupersededError:
                continue

    async def _bring(self, snapshot: Snapshot, secrets: Secrets) -> None:
        in_force = self.in_force
        if in_force is not None and snapshot.version == in_force.version:
            self._keys.replace(secrets)  # `_let_go` renews what Envoy has of them
            await self._wait_for_service()
            self._acknowledge()
            return
        content = content_digest(snapshot.version)
        reason = self._refused.get(content)
        if reason is None:
            reason = await self._try(snapshot, secrets)
        if reason is not None:
            self._remember(content, reason)
            self._log.error("the snapshot is refused", version=snapshot.version, reason=reason)
            self._reports.refuse(snapshot.version, reason)
            return
        self._in_use = [item for item in self._in_use if item.version != snapshot.version] + [snapshot]
        self._keep(snapshot)
        await self._wait_for_service()
        self._log.info("snapshot in force", version=snapshot.version)
        self._acknowledge()

    async def _try(self, snapshot: Snapshot, secrets: Secrets) -> str | None:
        """Give `snapshot` to Envoy beside what it has, then to the processors.

        Return why it cannot be, with everything as it was; None when it is taken.
        """
        before = self._keys.replace(secrets)
        taken, reason = False, None
        try:
            await self._serve([*self._in_use, snapshot])
            self._processors.publish(snapshot)
            reason = await self._processors_taken(snapshot.version)
            taken = reason is None
        except (RefusedError, ValueError) as error:
            reason = str(error)
        finally:
            # What Envoy took of it is taken back by `_let_go`; what it had before stays in force.
            if not taken:
                self._keys.replace(before)
        if not taken:
            self._take_back()
        return reason

    def _take_back(self) -> None:
        if self._in_use:
            self._processors.publish(self._in_use[-1])
        else:
            self._processors.withdraw()
            self._discovery.publish(ResourceSet())

    async def _wait_for_service(self) -> None:
        """Before the first acknowledgement: wait until Envoy serves this policy and asks a processor.

        Without it the first requests after readiness would fail open, or find no Envoy (a snapshot from
        disk is in force before Envoy has started).
        """
        if self._in_service:
            return
        try:
            async with asyncio.timeout(FIRST_SERVICE_LIMIT_S):
                await self._unless_superseded(self._discovery.accepted([CLUSTER_TYPE, ROUTES_TYPE]))
                await self._unless_superseded(self._warming.asks_a_processor(FIRST_SERVICE_LIMIT_S))
        except TimeoutError:
            self._log.warning("Envoy has not found a processor yet; going on without")
        except RefusedError as error:
            self._log.error("Envoy refuses the snapshot kept on disk", reason=str(error))
        self._in_service = True

    async def _serve(self, snapshots: Sequence[Snapshot]) -> None:
        """Serve the union of `snapshots`: clusters first, and routes only when the clusters can be used."""
        wanted = self._render(snapshots)
        routes = self._discovery.current.only(ROUTES_TYPE)
        self._discovery.publish(wanted.only(CLUSTER_TYPE, SECRET_TYPE).replacing(routes))
        await self._unless_superseded(self._discovery.accepted([CLUSTER_TYPE]))
        await self._unless_superseded(self._discovery.accepted([SECRET_TYPE], if_subscribed=True))
        if not await self._unless_superseded(self._warming.warmed(WARMING_LIMIT_S)):
            self._log.warning("a Backend's cluster is still warming: is its host name right?")
        self._discovery.publish(wanted)
        await self._unless_superseded(self._discovery.accepted([ROUTES_TYPE]))

    async def _let_go(self) -> None:
        """Take from Envoy what no processor decides by any more, and renew secrets: routes first."""
        if not self._in_use:
            return
        kept = self._in_use[self._oldest_needed() :]
        wanted = self._render(kept)
        if wanted != self._discovery.current:
            clusters = self._discovery.current.only(CLUSTER_TYPE)
            self._discovery.publish(wanted.replacing(clusters))
            try:
                await self._unless_superseded(self._discovery.accepted([ROUTES_TYPE]))
            except RefusedError as error:
                self._log.error("Envoy refuses routes that it had", reason=str(error))
                return
            self._discovery.publish(wanted)
        # Keys that are no longer in use are not kept in what was rendered either.
        self._rendered = [one for one in self._rendered if one[2] is wanted]
        if len(self._in_use) > len(kept):
            self._in_use = kept
            self._acknowledge()

    def _oldest_needed(self) -> int:
        """Return the index of the oldest snapshot that some decision may still need."""
        held = self._processors.held()
        loop = asyncio.get_running_loop()
        now = loop.time()
        for index, item in enumerate(self._in_use[:-1]):
            if item.version in held:
                self._free_since.pop(item.version, None)
                return index
            waited = now - self._free_since.setdefault(item.version, now)
            if waited < DECISIONS_ARRIVE_S:
                loop.call_later(DECISIONS_ARRIVE_S - waited, self._wake.set)
                return index
            del self._free_since[item.version]
        return len(self._in_use) - 1

    def _render(self, snapshots: Sequence[Snapshot]) -> ResourceSet:
        references = {
            backend.credential
            for snapshot in snapshots
            for backend in snapshot.backends.values()
            if backend.credential is not None
        }
        keys = self._keys.resolve(sorted(references, key=repr))
        for drawn_from, with_keys, drawn in self._rendered:
            # A snapshot never changes, so that it is the same one is all there is to compare.
            if with_keys == keys and [*map(id, drawn_from)] == [*map(id, snapshots)]:
                return drawn
        rendered = resource_set(
            {
                CLUSTER_TYPE: render_clusters(snapshots),
                SECRET_TYPE: render_secrets(snapshots, keys, self._authorities),
                ROUTES_TYPE: {ROUTES_NAME: render_routes(snapshots)},
            }
        )
        self._rendered = [*self._rendered[-1:], (tuple(snapshots), keys, rendered)]
        return rendered

    def _acknowledge(self) -> None:
        self._reports.acknowledge(self._in_use[-1].version, self._in_use[0].version)

    def _remember(self, content: str, reason: str) -> None:
        self._refused[content] = reason
        if len(self._refused) > REFUSED_REMEMBERED:
            self._refused.pop(next(iter(self._refused)))

    async def _processors_taken(self, version: str) -> str | None:
        try:
            async with asyncio.timeout(PROCESSORS_LIMIT_S):
                return await self._unless_superseded(self._processors.taken(version))
        except TimeoutError:
            self._log.warning("a processor has not taken the snapshot; going on without it", version=version)
        except _SupersededError:
            pass  # this one is in force; the newer one is brought next
        return None

    async def _unless_superseded(self, waiting: Coroutine[object, object, T]) -> T:
        """Wait, but no longer than until a newer snapshot is offered."""
        task = asyncio.create_task(waiting)
        newer = asyncio.create_task(self._newer.wait())
        try:
            await asyncio.wait({task, newer}, return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                raise _SupersededError
            return task.result()
        finally:
            task.cancel()
            newer.cancel()
