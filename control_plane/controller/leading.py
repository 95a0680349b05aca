"""What the one that leads does: follows every collection, mirrors, and writes statuses."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any, Final

from control_plane.controller.budget import Budget
from control_plane.controller.collection import Collection
from control_plane.controller.metrics import Metrics
from control_plane.controller.mirroring import ControlPlane, Mirroring
from control_plane.controller.ports import ApiServer, Log
from control_plane.controller.reporter import Current, Reporter
from control_plane.controller.resources import ROOT, CustomResource, SecretKey, custom_resources, wants
from control_plane.controller.secrets import Secrets
from control_plane.resources.plurals import PLURAL_OF

COUNTS_AT_ONCE: Final = 200
COUNTS_PER_S: Final = 20


class Leading:
    """One time of leading; made anew each time, so that nothing old is taken for current.

    Args:
        api: the API server.
        control_plane: what is mirrored into.
        namespace: where Secrets are.
        clock, now: monotonic seconds, and the time of day.
        holds: whether this leads still, as far as its own clock says.
        log: where it tells what it does.
        metrics: what it counts in.
    """

    def __init__(
        self,
        api: ApiServer,
        control_plane: ControlPlane,
        namespace: str,
        *,
        clock: Callable[[], float],
        now: Callable[[], datetime],
        holds: Callable[[], bool],
        log: Log,
        metrics: Metrics,
    ) -> None:
        self._metrics = metrics
        self._collections = {
            kind: Collection(
                api,
                f"{ROOT}/{plural}",
                changed=self._changed,
                log=log,
                broken=metrics.broken(plural),
                wants=wants,
            )
            for kind, plural in PLURAL_OF.items()
        }
        self._secrets = Secrets(
            api, namespace, changed=self._changed, log=log, broken=metrics.broken("secrets")
        )
        self._reporter = Reporter(
            api,
            holds=holds,
            current=self._current,
            learn=self._learn,
            budget=Budget(COUNTS_AT_ONCE, COUNTS_PER_S, clock),
            now=now,
            log=log,
            count=metrics.written,
        )
        self._mirroring = Mirroring(
            control_plane,
            resources=self._resources,
            secrets=self._values,
            publish=self._reporter.publish,
            clock=clock,
            holds=holds,
            log=log,
            count=metrics.mirrored,
        )

    def __repr__(self) -> str:
        return f"<Leading of {sum(len(found.objects) for found in self._collections.values())}>"

    async def run(self) -> None:
        """Lead until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for collection in self._collections.values():
                tasks.create_task(collection.follow())
            tasks.create_task(self._secrets.follow())
            tasks.create_task(self._mirroring.run())
            tasks.create_task(self._reporter.run())

    def _changed(self) -> None:
        for kind, collection in self._collections.items():
            self._metrics.resources(kind, len(collection.objects))
        self._mirroring.wake()

    def _resources(self) -> list[CustomResource] | None:
        if not self._secrets.tried or not all(found.listed for found in self._collections.values()):
            return None
        return [resource for resource, _ in self._current()]

    async def _values(self, wanted: Iterable[SecretKey]) -> Mapping[SecretKey, str] | None:
        return await self._secrets.values(wanted) if self._secrets.listed else None

    def _current(self) -> Iterator[Current]:
        for kind, collection in self._collections.items():
            for value in collection.objects.values():
                for resource in custom_resources(kind, (value,)):
                    yield resource, value

    def _learn(self, resource: CustomResource, before: Mapping[str, Any], after: Mapping[str, Any]) -> None:
        self._collections[resource.key.kind].learn(before, after)
