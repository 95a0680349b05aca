"""A cluster in memory: versions, watches that end, expire or break, and writes that conflict."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from copy import deepcopy
from typing import Any

from control_plane.controller.ports import Query
from control_plane.controller.resources import ROOT
from control_plane.kubernetes_client import KubernetesError
from control_plane.resources.plurals import PLURAL_OF

SECRETS = "/api/v1/namespaces/mesh/secrets"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/mesh/leases"

Refuse = Callable[[str, str], KubernetesError | None]


def path_of(kind: str) -> str:
    """Return the collection of a kind."""
    return f"{ROOT}/{PLURAL_OF[kind]}"


class Cluster:
    """Answers as an API server does. `refuse` may make a call fail; `calls` is what was asked, in order."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str]] = []
        self.accepted: dict[str, set[str]] = {}
        self.patches: list[Mapping[str, Any]] = []
        self.refuse: Refuse = lambda _method, _path: None
        self.page: int | None = None
        self._objects: dict[str, dict[str, dict[str, Any]]] = {}
        self._events: list[tuple[int, str, str, dict[str, Any]]] = []
        self._version = 0
        self._oldest = 0
        self._moved = asyncio.Event()
        self._cut: KubernetesError | None = None
        self._round = 0

    def put(self, collection: str, name: str, **fields: Any) -> dict[str, Any]:
        """Create an object, or replace its fields."""
        known = self._objects.setdefault(collection, {}).get(name)
        self._version += 1
        before: dict[str, Any] = (
            known["metadata"] if known else {"name": name, "uid": f"uid-{self._version}", "generation": 0}
        )
        grown = int(known is None or known.get("spec") != fields.get("spec", known.get("spec")))
        metadata = {
            **before,
            "generation": before["generation"] + grown,
            "resourceVersion": str(self._version),
        }
        value = {**(known or {}), **deepcopy(fields), "metadata": metadata}
        self._objects[collection][name] = value
        self._tell("MODIFIED" if known else "ADDED", collection, value)
        return value

    def delete(self, collection: str, name: str) -> None:
        """Delete an object."""
        self._version += 1
        value = self._objects[collection].pop(name)
        metadata = {**value["metadata"], "resourceVersion": str(self._version)}
        self._tell("DELETED", collection, {**value, "metadata": metadata})

    def get(self, collection: str, name: str) -> dict[str, Any]:
        """Return an object."""
        return self._objects[collection][name]

    def forget(self) -> None:
        """Forget what happened: a watch from before now has expired."""
        self._oldest = self._version

    def end_watches(self, error: KubernetesError | None = None) -> None:
        """End every watch that is on: in order, or by `error`."""
        self._cut = error
        self._round += 1
        self._wake()

    def conditions(self, kind: str, name: str) -> dict[str, tuple[str, str]]:
        """Return status and reason of each condition."""
        found = self.get(path_of(kind), name).get("status", {}).get("conditions", [])
        return {item["type"]: (item["status"], item["reason"]) for item in found}

    async def call(
        self,
        method: str,
        path: str,
        *,
        body: Any = None,
        query: Query = (),
        content_type: str = "",
        accept: str = "",
        within_s: float = 0,
    ) -> dict[str, Any]:
        """Answer a call."""
        self.calls.append((method, path))
        self.accepted.setdefault(path, set()).add(accept)
        await asyncio.sleep(0)
        error = self.refuse(method, path)
        if error is not None:
            raise error
        if method == "GET" and self._is_collection(path):
            return self._list(path, dict(query))
        if method == "POST":
            return self._create(path, body)
        return self._one(method, path, body)

    async def watch(
        self, path: str, *, query: Query = (), accept: str = "", silent_s: float = 0
    ) -> AsyncIterator[dict[str, Any]]:
        """Yield events from the version of `query` on."""
        self.calls.append(("WATCH", path))
        error = self.refuse("WATCH", path)
        if error is not None:
            raise error
        version, began = int(dict(query)["resourceVersion"]), self._round
        if version < self._oldest:
            raise KubernetesError(410, "Expired", "too old resource version")
        while self._round == began:
            for number, kind, value in list(self._since(path, version)):
                version = number
                yield {"type": kind, "object": deepcopy(value)}
            moved = self._moved
            if not any(self._since(path, version)) and self._round == began:
                await moved.wait()
        if self._cut is not None:
            raise self._cut

    def _since(self, path: str, version: int) -> Iterator[tuple[int, str, dict[str, Any]]]:
        return (
            (number, kind, value)
            for number, where, kind, value in self._events
            if where == path and number > version
        )

    def _list(self, path: str, query: Mapping[str, str]) -> dict[str, Any]:
        items = [deepcopy(value) for value in self._objects.get(path, {}).values()]
        metadata = {"resourceVersion": str(self._version)}
        if self.page is not None:
            begin = int(query.get("continue", "0"))
            end = begin + self.page
            if end < len(items):
                metadata["continue"] = str(end)
            items = items[begin:end]
        return {"metadata": metadata, "items": items}

    def _create(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        name = body["metadata"]["name"]
        if name in self._objects.get(path, {}):
            raise KubernetesError(409, "AlreadyExists", "exists")
        return deepcopy(self.put(path, name, spec=body["spec"]))

    def _one(self, method: str, path: str, body: Any) -> dict[str, Any]:
        whole = path.removesuffix("/status")
        collection, _, name = whole.rpartition("/")
        value = self._objects.get(collection, {}).get(name)
        if value is None:
            raise KubernetesError(404, "NotFound", "there is none")
        if method == "GET":
            return deepcopy(value)
        if collection == LEASES:
            if body["metadata"].get("resourceVersion") != value["metadata"]["resourceVersion"]:
                raise KubernetesError(409, "Conflict", "has been modified")
            return deepcopy(self.put(collection, name, spec=body["spec"]))
        if body.get("metadata", {}).get("uid", value["metadata"]["uid"]) != value["metadata"]["uid"]:
            raise KubernetesError(409, "Conflict", "is another")
        self.patches.append(body)
        merged = {**value.get("status", {}), **body["status"]}
        status = {name: item for name, item in merged.items() if item is not None}
        return deepcopy(self.put(collection, name, status=status))

    def _is_collection(self, path: str) -> bool:
        return path.endswith((*PLURAL_OF.values(), "secrets"))

    def _tell(self, kind: str, collection: str, value: dict[str, Any]) -> None:
        self._events.append((self._version, collection, kind, value))
        self._wake()

    def _wake(self) -> None:
        self._moved.set()
        self._moved = asyncio.Event()


class Silence:
    """A log that keeps what it is told."""

    def __init__(self) -> None:
        self.told: list[tuple[str, dict[str, object]]] = []

    def info(self, event: str, **fields: object) -> None:
        """Keep it."""
        self.told.append((event, fields))

    warning = info
    error = info


async def until(condition: Callable[[], bool], within_s: float = 5.0) -> None:
    """Return as soon as `condition` holds."""
    async with asyncio.timeout(within_s):
        while not condition():  # noqa: ASYNC110 - what is waited for tells nobody
            await asyncio.sleep(0.005)
