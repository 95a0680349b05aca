"""Tells the control plane what is wanted, and asks it what is in force; reports to whoever listens.

Nothing is told before every collection was read as a whole: what is not told of counts as deleted.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterable, Mapping, Set
from typing import Final, Protocol, TypeVar

from control_plane.controller.backoff import pause_s
from control_plane.controller.desired import desired
from control_plane.controller.mirror import MirrorError
from control_plane.controller.ports import Log
from control_plane.controller.resources import CustomResource, Key, SecretKey, secrets_named
from control_plane.controller.verdicts import Standing, Verdicts
from control_plane.controller.view import View
from control_plane.kubernetes_client import KubernetesError

GATHER_S: Final = 0.1
"""Changes that come together go over together."""
ASK_EVERY_S: Final = 1.0
TELL_EVERY_S: Final = 25.0
BEHIND_S: Final = 0.2
"""Another replica of the control plane may answer that has not read the newest revision yet."""
MAX_BEHIND: Final = 20


T = TypeVar("T")


class ControlPlane(Protocol):
    """The mirror of one control plane; both methods raise `MirrorError`."""

    async def tell(self, desired: bytes) -> Verdicts:
        """Send the whole of what is wanted."""
        ...

    async def standing(self) -> Standing:
        """Return what is in force."""
        ...


class Mirroring:
    """One leader's conversation with the control plane.

    Args:
        control_plane: whom it talks to.
        resources: every custom resource as it is now; None while that is not known.
        secrets: reads Secrets; None while they cannot be read, which leaves those of before as they are.
        publish: told what holds whenever something of it may have changed.
        clock: monotonic seconds.
        holds: whether this leads still, as far as its own clock says.
        log: where failures are told, the first of a row.
        count: called with what was done and how it ended.
    """

    def __init__(
        self,
        control_plane: ControlPlane,
        *,
        resources: Callable[[], Iterable[CustomResource] | None],
        secrets: Callable[[Iterable[SecretKey]], Awaitable[Mapping[SecretKey, str] | None]],
        publish: Callable[[View], None],
        clock: Callable[[], float],
        holds: Callable[[], bool],
        log: Log,
        count: Callable[[str, str], None] = lambda _did, _ended: None,
    ) -> None:
        self._control_plane = control_plane
        self._resources = resources
        self._secrets = secrets
        self._publish = publish
        self._clock = clock
        self._holds = holds
        self._log = log
        self._count = count
        self._woken = asyncio.Event()
        self._changed = True
        self._sent: bytes | None = None
        self._told_at = float("-inf")
        self._missing: Set[SecretKey] = frozenset()
        self._kept: list[str] = []
        self._wanted: Mapping[Key, CustomResource] = {}
        self._verdicts: Verdicts | None = None
        self._published: tuple[Verdicts, Standing] | None = None

    def __repr__(self) -> str:
        return f"<Mirroring of {len(self._wanted)}>"

    def wake(self) -> None:
        """Have it look at once: something changed."""
        self._woken.set()

    async def run(self) -> None:
        """Mirror until cancelled, however often the other side fails."""
        failures = 0
        while True:
            try:
                await self._step()
            except (MirrorError, KubernetesError) as error:
                failures += 1
                if failures == 1:
                    self._log.warning("the control plane cannot be told", error=str(error))
                # What is wanted is put together anew: nobody knows what came over.
                self._sent, self._changed = None, True
                await asyncio.sleep(pause_s(failures, random.random()))
                continue
            if failures:
                self._log.info("the control plane is told again", failures=failures)
                failures = 0
            await self._change()

    async def _step(self) -> None:
        if not self._holds():
            # What is known may be old: whoever leads by now has told something newer.
            return
        due = self._clock() - self._told_at >= TELL_EVERY_S
        if self._changed or due:
            await self._tell(due)
        if self._verdicts is None:
            return
        standing = await self._standing(self._verdicts.revision)
        if standing.revision > self._verdicts.revision and not self._verdicts.is_settled:
            # Others changed something: what stood in the way of a resource may be gone.
            self._told_at = float("-inf")
        if self._published is None or self._published != (self._verdicts, standing):
            self._published = (self._verdicts, standing)
            self._publish(View(self._wanted, self._verdicts, standing, self._missing))

    async def _standing(self, revision: int) -> Standing:
        for _ in range(MAX_BEHIND):
            standing = await self._counted("ask", self._control_plane.standing())
            if standing.revision >= revision:
                return standing
            await asyncio.sleep(BEHIND_S)
        raise MirrorError("behind", "the control plane answers of an older revision than it made")

    async def _tell(self, due: bool) -> None:
        resources = self._resources()
        if resources is None:
            return
        self._changed = False
        wanted = {resource.key: resource for resource in resources}
        named = set().union(*map(secrets_named, wanted.values()))
        values = await self._secrets(named)
        body = desired(wanted.values(), values)
        if body == self._sent and not due:
            # Only metadata differs, which may say that what was told is of this generation.
            self._renew(wanted)
            return
        verdicts = await self._counted("tell", self._control_plane.tell(body))
        self._say_kept(verdicts.kept)
        self._sent, self._told_at = body, self._clock()
        self._wanted, self._verdicts, self._published = wanted, verdicts, None
        self._missing = frozenset() if values is None else named - values.keys()

    def _say_kept(self, kept: Iterable[str]) -> None:
        """Tell what cannot be deleted yet when that changes: it is told again and again, and may last."""
        documents = sorted(kept)
        if documents == self._kept:
            return
        if documents:
            self._log.info("deleted, but still named by others", documents=documents)
        else:
            self._log.info("nothing deleted is named by others any more", documents=self._kept)
        self._kept = documents

    def _renew(self, wanted: Mapping[Key, CustomResource]) -> None:
        if any(
            (wanted[key].uid, wanted[key].generation) != (told.uid, told.generation)
            for key, told in self._wanted.items()
        ):
            self._wanted, self._published = wanted, None

    async def _change(self) -> None:
        """Wait for a change, or until it is time to ask."""
        try:
            async with asyncio.timeout(ASK_EVERY_S):
                await self._woken.wait()
        except TimeoutError:
            return
        await asyncio.sleep(GATHER_S)
        self._woken.clear()
        self._changed = True

    async def _counted(self, did: str, doing: Awaitable[T]) -> T:
        try:
            result = await doing
        except MirrorError as error:
            self._count(did, error.reason)
            raise
        self._count(did, "ok")
        return result
