"""One Policy that is set for trials, through the API, and put back or kept at the end."""

from __future__ import annotations

import asyncio
import time
from typing import Any, Final

from control_plane.cli.client import Client, Refused
from control_plane.cli.failures import CommandFailed
from control_plane.cli.waiting import POLL_S, standing
from control_plane.tools.tune.policies import NotBatching, bare, changes, check_batching, with_setting
from control_plane.tools.tune.settings import Setting

IN_FORCE_S: Final = 30.0


class TrialPolicy:
    """The Policy `name` on a control plane. It is read at once, so that what is wrong is told before a run.

    Raises:
        CommandFailed: nobody answers, there is no such Policy, or it does not batch.
    """

    def __init__(self, client: Client, name: str) -> None:
        self._client = client
        self._name = name
        self._before, self._etag = self._read()
        self._written = self._before
        try:
            check_batching(self._before)
        except NotBatching as error:
            raise CommandFailed(f"Policy/{name} {error}") from None

    async def set(self, setting: Setting) -> None:
        """Return once `setting` is in force on every sidecar.

        Raises:
            CommandFailed: it is refused, or not in force in time.
        """
        await asyncio.to_thread(self._write, with_setting(self._before, setting))

    def keep(self, setting: Setting) -> list[dict[str, Any]]:
        """Write `setting` for good; return what differs from the Policy as it was. Raises as `set`."""
        before, made = self._before, with_setting(self._before, setting)
        self._write(made)
        self._before = made
        return changes(before, made)

    def put_back(self) -> bool:
        """Write the Policy as it was; False when somebody else has changed it since, and then it stays.

        Raises:
            CommandFailed: it cannot be written.
        """
        if self._written == self._before:
            return True
        found, etag = self._read()
        # A trial may have been taken although nobody said so.
        if etag != self._etag and found != self._written:
            self._written = self._before
            return False
        self._etag = etag
        self._write(self._before)
        return True

    def _read(self) -> tuple[dict[str, Any], str]:
        answer = self._client.get("policies", self._name)
        return bare(answer.fields()), answer.etag

    def _write(self, document: dict[str, Any]) -> None:
        """Put `document` in the place of the last one that was seen, and of no other."""
        if document == self._written:
            return
        self._written = document
        try:
            self._etag = self._client.put("policies", self._name, body=document, if_match=self._etag).etag
        except Refused as refused:
            if refused.status != 412:
                raise
            raise CommandFailed(
                f"Policy/{self._name} was changed by somebody else meanwhile; it is left as it is now"
            ) from None
        self._until_in_force(time.monotonic() + IN_FORCE_S)

    def _until_in_force(self, deadline: float) -> None:
        settled = 0
        while True:
            newest = self._client.get("revisions", query={"limit": 1}).items()
            found = standing(self._client.get("sidecars").items(), newest[0] if newest else {})
            if found.halted is not None or found.refusals:
                reason = found.halted or found.refusals[0]
                raise CommandFailed(f"Policy/{self._name} cannot be tried: {reason}")
            # Twice in a row: the first look may come before the change has begun to spread.
            settled = settled + 1 if found.settled else 0
            if settled == 2:
                return
            if time.monotonic() > deadline:
                raise CommandFailed(
                    f"Policy/{self._name} is {found.sentence()} only; look at outrigger status"
                )
            time.sleep(POLL_S)
