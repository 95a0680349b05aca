"""One leader among replicas, by a Lease of the API server. Decides nothing itself: `record` does."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Final

from control_plane.controller.ports import ApiServer, Log
from control_plane.controller.record import (
    LOOK_EVERY_S,
    RENEW_EVERY_S,
    RENEW_WITHIN_S,
    Record,
    lease_of,
    may_take,
    record_of,
    released,
    taken,
)
from control_plane.kubernetes_client import MERGE_PATCH, KubernetesError

NAME: Final = "outrigger-controller"
CALL_WITHIN_S: Final = 4.0
RETRY_S: Final = 0.5
RELEASE_WITHIN_S: Final = 2.0
_NOT_FOUND: Final = 404


class Election:
    """Leads while it holds the Lease.

    Args:
        api: where the Lease is.
        namespace: its namespace.
        identity: who this is, unlike every other replica.
        clock, now: monotonic seconds, and the time of day.
        log: where it tells who leads.
        heard: called each time the API server answered.
        leads: called with whether this leads, when that changes.
    """

    def __init__(
        self,
        api: ApiServer,
        namespace: str,
        identity: str,
        *,
        clock: Callable[[], float],
        now: Callable[[], datetime],
        log: Log,
        heard: Callable[[], None] = lambda: None,
        leads: Callable[[bool], None] = lambda _: None,
    ) -> None:
        self._api = api
        self._leases = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
        self._namespace = namespace
        self._identity = identity
        self._clock = clock
        self._now = now
        self._log = log
        self._heard = heard
        self._leads = leads
        self._seen: Record | None = None
        self._unchanged_since = clock()
        self._renewed_at = float("-inf")

    def __repr__(self) -> str:
        return f"<Election of {self._identity} at {self._leases}>"

    @property
    def holds(self) -> bool:
        """Whether the Lease was renewed lately enough for nobody else to have taken it."""
        return self._clock() - self._renewed_at < RENEW_WITHIN_S

    async def run(self, lead: Callable[[], Awaitable[None]]) -> None:
        """Run `lead` whenever this leads, until cancelled; then let the Lease go."""
        while True:
            held = await self._win()
            self._log.info("leads", identity=self._identity)
            self._leads(True)
            leading = asyncio.ensure_future(lead())
            renewing = asyncio.ensure_future(self._renew(held))
            try:
                await asyncio.wait((leading, renewing), return_when=asyncio.FIRST_COMPLETED)
            finally:
                await _end(leading, renewing)
                self._leads(False)
                if self._seen is not None and self._seen.holder == self._identity:
                    await self._release()
            if leading.done() and not leading.cancelled() and leading.exception() is not None:
                # A failure that nobody foresaw ends the process, to begin anew.
                raise leading.exception() or RuntimeError
            self._log.warning("leads no more", identity=self._identity)

    async def _win(self) -> Record:
        failures = 0
        while True:
            try:
                held = await self._attempt()
                failures = 0
            except KubernetesError as error:
                held = None
                failures += 1
                if failures == 1:
                    self._log.warning("the lease cannot be had", error=str(error))
            if held is not None:
                return held
            await asyncio.sleep(LOOK_EVERY_S * (0.8 + random.random() * 0.2))

    async def _attempt(self) -> Record | None:
        """Take the Lease if it may be taken. Returns it as it is held, None when another holds it."""
        record = await self._read()
        if record != self._seen:
            self._seen, self._unchanged_since = record, self._clock()
        if not may_take(record, self._identity, self._clock() - self._unchanged_since):
            return None
        try:
            return await self._write(taken(record, self._identity, self._now()))
        except KubernetesError as error:
            if error.status == 409:
                return None
            raise

    async def _renew(self, held: Record) -> None:
        """Return once the Lease is another's, or could not be renewed in time."""
        while True:
            await asyncio.sleep(RENEW_EVERY_S)
            while True:
                try:
                    async with asyncio.timeout(max(0.1, self._renewed_at + RENEW_WITHIN_S - self._clock())):
                        held = await self._renewed(held)
                    break
                except (KubernetesError, TimeoutError) as error:
                    if not self.holds:
                        self._log.warning("the lease cannot be renewed", error=str(error) or "no answer")
                        return
                    await asyncio.sleep(RETRY_S)
            if held.holder != self._identity:
                return

    async def _renewed(self, held: Record) -> Record:
        try:
            return await self._write(taken(held, self._identity, self._now()))
        except KubernetesError as error:
            if error.status not in (409, _NOT_FOUND):
                raise
        # Somebody wrote to it, perhaps only a label: it is ours still if it says so.
        found = await self._read()
        if found.holder != self._identity:
            self._seen, self._unchanged_since = found, self._clock()
            return found
        return await self._write(taken(found, self._identity, self._now()))

    async def _release(self) -> None:
        if self._seen is None:
            return
        with contextlib.suppress(KubernetesError, TimeoutError):
            async with asyncio.timeout(RELEASE_WITHIN_S):
                await self._write(released(self._seen, self._now()))

    async def _read(self) -> Record:
        try:
            lease = await self._api.call("GET", f"{self._leases}/{NAME}", within_s=CALL_WITHIN_S)
        except KubernetesError as error:
            if error.status != _NOT_FOUND:
                raise
            self._heard()
            return Record()
        self._heard()
        return record_of(lease)

    async def _write(self, record: Record) -> Record:
        body = lease_of(record, NAME, self._namespace)
        asked_at = self._clock()
        if record.version is None:
            lease = await self._api.call("POST", self._leases, body=body, within_s=CALL_WITHIN_S)
        else:
            # With its version: 409 if somebody else wrote since it was read.
            path = f"{self._leases}/{NAME}"
            lease = await self._api.call(
                "PATCH", path, body=body, content_type=MERGE_PATCH, within_s=CALL_WITHIN_S
            )
        self._heard()
        self._seen, self._unchanged_since = record_of(lease), self._clock()
        if self._seen.holder == self._identity:
            # From before it was asked on: another may have seen it as soon as it was written.
            self._renewed_at = asked_at
        return self._seen


async def _end(*tasks: asyncio.Future[None]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
