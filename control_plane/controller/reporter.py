"""Writes statuses: what the control plane says of each custom resource, where it is not written yet."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any, Final

from control_plane.controller.backoff import pause_s
from control_plane.controller.budget import Budget
from control_plane.controller.ports import ApiServer, Log
from control_plane.controller.resources import CustomResource
from control_plane.controller.status import Update, update_for
from control_plane.controller.view import View
from control_plane.kubernetes_client import MERGE_PATCH, KubernetesError

AT_ONCE: Final = 16
LOOK_AGAIN_S: Final = 1.0
_GONE: Final = 404
_OF_ONE: Final = (409, 422)
"""What is about one resource; after any other failure the others would only fail too."""

Current = tuple[CustomResource, Mapping[str, Any]]
"""A custom resource and the object it was read from."""


class Reporter:
    """Keeps every status as the newest view has it.

    Args:
        api: where statuses are written.
        holds: whether this leads still, as far as its own clock says.
        current: every custom resource as it is now.
        learn: told the object that was, and the one that a write made of it.
        budget: how many counts of sidecars may be written; what else changed is written at once.
        now: the time of day.
        log: where failures are told, the first of a row.
        count: called with how each write ended.
    """

    def __init__(
        self,
        api: ApiServer,
        *,
        holds: Callable[[], bool],
        current: Callable[[], Iterable[Current]],
        learn: Callable[[CustomResource, Mapping[str, Any], Mapping[str, Any]], None],
        budget: Budget,
        now: Callable[[], datetime],
        log: Log,
        count: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._api = api
        self._holds = holds
        self._current = current
        self._learn = learn
        self._budget = budget
        self._now = now
        self._log = log
        self._count = count
        self._view: View | None = None
        self._woken = asyncio.Event()

    def __repr__(self) -> str:
        return f"<Reporter of {self._view!r}>"

    def publish(self, view: View) -> None:
        """Have statuses follow `view` from now on."""
        self._view = view
        self._woken.set()

    async def run(self) -> None:
        """Write until cancelled, however often it fails."""
        failures = 0
        while True:
            await self._woken.wait()
            self._woken.clear()
            error = await self.report()
            if error is None:
                failures = 0
                continue
            failures += 1
            if failures == 1:
                self._log.warning("a status cannot be written", error=str(error))
            await asyncio.sleep(pause_s(failures, random.random()))
            self._woken.set()

    async def report(self) -> KubernetesError | None:
        """Write every status that is not as it should be; return one of the failures, if there were any."""
        due = self._due()
        workers = (self._write_all(due) for _ in range(AT_ONCE))
        errors = await asyncio.gather(*workers)
        return next((error for error in errors if error is not None), None)

    def _due(self) -> Iterator[tuple[CustomResource, Mapping[str, Any], Update]]:
        """Yield what is to be written, each looked at just before it is its turn; counts come last."""
        counts: list[Current] = []
        for resource, value in list(self._current()):
            update = self._update(resource)
            if update is None:
                continue
            if update.urgent:
                yield resource, value, update
            else:
                counts.append((resource, value))
        for resource, value in counts:
            update = self._update(resource)
            if update is None:
                continue
            if not self._budget.take():
                self._look_again()
                return
            yield resource, value, update

    def _look_again(self) -> None:
        asyncio.get_running_loop().call_later(LOOK_AGAIN_S, self._woken.set)

    def _update(self, resource: CustomResource) -> Update | None:
        view = self._view
        verdict = view.verdict(resource) if view is not None else None
        if view is None or verdict is None:
            return None
        return update_for(resource, verdict, view.standing, self._now())

    async def _write_all(
        self, due: Iterator[tuple[CustomResource, Mapping[str, Any], Update]]
    ) -> KubernetesError | None:
        failed = None
        for resource, value, update in due:
            if not self._holds():
                self._look_again()
                break
            try:
                await self._write(resource, value, update)
            except KubernetesError as error:
                self._count(error.reason)
                failed = error
                if error.status not in _OF_ONE:
                    break
        return failed

    async def _write(self, resource: CustomResource, value: Mapping[str, Any], update: Update) -> None:
        # With its uid, so that nothing is said of another that was made under the same name meanwhile.
        metadata = {"metadata": {"uid": resource.uid}} if resource.uid else {}
        body = {**metadata, "status": update.status}
        try:
            after = await self._api.call("PATCH", resource.path, body=body, content_type=MERGE_PATCH)
        except KubernetesError as error:
            if error.status == _GONE:
                self._count("gone")
                return
            raise
        self._count("ok")
        self._learn(resource, value, after)
