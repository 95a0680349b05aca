"""One collection of the API server, kept current: a list, then watches from where it ended.

A watch that ends in order goes on from its last version. Whatever else ends it (410, a broken or silent
connection, an error) leads to a new list, so nothing that was missed stays missed.
https://kubernetes.io/docs/reference/using-api/api-concepts/#efficient-detection-of-changes
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from control_plane.controller.backoff import pause_s
from control_plane.controller.ports import ApiServer, Log
from control_plane.kubernetes_client import KubernetesError

PAGE: Final = 500
WATCH_S: Final = 27
"""How long a watch lasts: a connection that died in silence is found out by the end of it."""
SILENT_S: Final = 33.0
LIST_WITHIN_S: Final = 30.0
LIST_ANEW_S: Final = 600.0
STEADY_S: Final = 10.0
"""A watch that lasted so long was no failure in a row with an earlier one."""
_GONE: Final = 410
_PLAIN: Final = "application/json"


class Collection:
    """The objects at one path, by name, as they are now as far as is known.

    Args:
        api: where they are.
        path: the collection's path.
        changed: called when an object came, changed in what `wants` says of it, or went.
        log: where failures are told, the first of a row.
        broken: called with the reason each time a list or a watch fails.
        accept: what is asked for: the objects, or their metadata only.
        wants: what of an object matters.
    """

    def __init__(
        self,
        api: ApiServer,
        path: str,
        *,
        changed: Callable[[], None],
        log: Log,
        broken: Callable[[str], None] = lambda _: None,
        accept: Mapping[str, str] | None = None,
        wants: Callable[[Mapping[str, Any]], object] = lambda value: value,
        watch_s: int = WATCH_S,
        silent_s: float = SILENT_S,
    ) -> None:
        self._api = api
        self._path = path
        self._changed = changed
        self._log = log
        self._broken = broken
        self._accept = accept or {"list": _PLAIN, "watch": _PLAIN}
        self._wants = wants
        self._watch_s = watch_s
        self._silent_s = silent_s
        self._objects: dict[str, Mapping[str, Any]] = {}
        self._listed = False

    def __repr__(self) -> str:
        return f"<Collection {self._path} of {len(self._objects)}>"

    @property
    def listed(self) -> bool:
        """Whether it was read as a whole; before that, nothing can be said of what is not there."""
        return self._listed

    @property
    def objects(self) -> Mapping[str, Mapping[str, Any]]:
        """The objects by name."""
        return self._objects

    def learn(self, before: Mapping[str, Any], after: Mapping[str, Any]) -> None:
        """Take `after`, what a write of ours answered, unless something newer than `before` is known."""
        name = _name(after)
        if self._objects.get(name) is before:
            self._objects[name] = after

    async def follow(self) -> None:
        """Keep it current until cancelled."""
        failures = 0
        while True:
            began = time.monotonic()
            try:
                await self._watch(await self._list())
                failures = 0
                continue
            except KubernetesError as error:
                failed = error
            failures = 1 if time.monotonic() - began >= STEADY_S else failures + 1
            self._broken(failed.reason)
            if failures == 1 and failed.status != _GONE:
                self._log.warning("a collection cannot be followed", path=self._path, error=str(failed))
            await asyncio.sleep(pause_s(failures, random.random()))

    async def _list(self) -> str:
        found: dict[str, Mapping[str, Any]] = {}
        query = [("limit", str(PAGE))]
        while True:
            page = await self._api.call(
                "GET", self._path, query=query, accept=self._accept["list"], within_s=LIST_WITHIN_S
            )
            found.update((_name(item), item) for item in page.get("items") or ())
            metadata = page.get("metadata") or {}
            if not metadata.get("continue"):
                break
            query = [("limit", str(PAGE)), ("continue", str(metadata["continue"]))]
        differs = found != self._objects or not self._listed
        self._objects = found
        self._listed = True
        if differs:
            self._changed()
        return str(metadata.get("resourceVersion") or "")

    async def _watch(self, version: str) -> None:
        """Watch from `version` on until it is time to list anew."""
        end = time.monotonic() + LIST_ANEW_S * (0.5 + random.random() / 2)
        while time.monotonic() < end:
            query = [("allowWatchBookmarks", "true"), ("timeoutSeconds", str(self._watch_s))]
            if version:
                query.append(("resourceVersion", version))
            began = time.monotonic()
            async for event in self._api.watch(
                self._path, query=query, accept=self._accept["watch"], silent_s=self._silent_s
            ):
                version = self._take(event) or version
            if time.monotonic() - began < 1:
                # A server that ends each watch at once is not to be asked in a loop.
                await asyncio.sleep(1)

    def _take(self, event: Mapping[str, Any]) -> str | None:
        value = event.get("object") or {}
        kind = event.get("type")
        version = (value.get("metadata") or {}).get("resourceVersion")
        if kind in ("ADDED", "MODIFIED"):
            before = self._objects.get(_name(value))
            self._objects[_name(value)] = value
            if before is None or self._wants(before) != self._wants(value):
                self._changed()
        elif kind == "DELETED":
            self._objects.pop(_name(value), None)
            self._changed()
        return str(version) if version else None


def _name(value: Mapping[str, Any]) -> str:
    return str((value.get("metadata") or {}).get("name"))
