"""An API server in memory: objects by path, versions, conflicts."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import jsonpatch

from control_plane.kubernetes_client import KubernetesError


class Cluster:
    """Keeps objects; `before` is called ahead of each call, to let somebody else be quicker."""

    def __init__(self) -> None:
        self.objects: dict[str, dict[str, Any]] = {}
        self.collections: dict[str, list[dict[str, Any]]] = {}
        self.calls: list[tuple[str, str]] = []
        self.down = False
        self.before: Callable[[str, str], None] = lambda method, path: None

    def put(self, path: str, item: dict[str, Any]) -> None:
        """Have an object, with a new version."""
        before = int((self.objects.get(path) or {}).get("metadata", {}).get("resourceVersion", 0))
        made = copy.deepcopy(item)
        made.setdefault("metadata", {})["resourceVersion"] = str(before + 1)
        self.objects[path] = made

    @property
    def writes(self) -> list[tuple[str, str]]:
        """The calls that change something."""
        return [call for call in self.calls if call[0] != "GET"]

    async def call(
        self,
        method: str,
        path: str,
        *,
        body: Any = None,
        query: Sequence[tuple[str, str]] = (),
        content_type: str = "application/json",
    ) -> dict[str, Any]:
        """Answer one call as an API server does."""
        self.before(method, path)
        self.calls.append((method, path))
        if self.down:
            raise KubernetesError(0, "Unreachable", "the API server cannot be reached")
        if method == "GET" and path in self.collections:
            return self._page(self.collections[path], dict(query))
        if method == "POST":
            path = f"{path}/{body['metadata']['name']}"
            if path in self.objects:
                raise KubernetesError(409, "AlreadyExists", "it exists")
            self.put(path, body)
            return self.objects[path]
        found = self.objects.get(path)
        if found is None:
            raise KubernetesError(404, "NotFound", f"{path} not found")
        if method == "PUT":
            if body["metadata"]["resourceVersion"] != found["metadata"]["resourceVersion"]:
                raise KubernetesError(409, "Conflict", "it has changed")
            self.put(path, body)
        elif method == "PATCH":
            self.put(path, jsonpatch.apply_patch(found, body))
        return copy.deepcopy(self.objects[path])

    def _page(self, items: list[dict[str, Any]], query: dict[str, str]) -> dict[str, Any]:
        begin, size = int(query.get("continue", "0")), 2
        rest = str(begin + size) if begin + size < len(items) else ""
        return {"items": items[begin : begin + size], "metadata": {"continue": rest}}
