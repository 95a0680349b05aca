"""Secrets of one namespace: all are known by their version only, and read are those that something names.

https://kubernetes.io/docs/reference/using-api/api-concepts/#receiving-resources-as-partialobjectmetadata
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from control_plane.controller.collection import Collection
from control_plane.controller.ports import ApiServer, Log
from control_plane.controller.resources import SecretKey
from control_plane.kubernetes_client import KubernetesError

AT_ONCE: Final = 8
_PARTIAL: Final = "application/json;as=PartialObjectMetadata{};g=meta.k8s.io;v=v1"
_ACCEPT: Final = {"list": _PARTIAL.format("List"), "watch": _PARTIAL.format("")}
_NOT_FOUND: Final = 404


class Secrets:
    """The Secrets of `namespace`.

    Args:
        api: where they are.
        namespace: the only one that is looked at.
        changed: called when one came, changed or went that is, or was, named.
        log, broken: as a collection's.
    """

    def __init__(
        self,
        api: ApiServer,
        namespace: str,
        *,
        changed: Callable[[], None],
        log: Log,
        broken: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._api = api
        self._path = f"/api/v1/namespaces/{namespace}/secrets"
        self._changed = changed
        self._read: dict[str, tuple[object, Mapping[str, str]]] = {}
        self._named: frozenset[str] = frozenset()
        self._failed = self._told = False
        self._broken = broken
        self._index = Collection(
            api, self._path, changed=self._index_changed, log=log, broken=self._index_broken, accept=_ACCEPT
        )

    def __repr__(self) -> str:
        return f"<Secrets at {self._path}, {len(self._read)} read>"

    @property
    def listed(self) -> bool:
        """Whether it is known which Secrets there are."""
        return self._index.listed

    @property
    def tried(self) -> bool:
        """Whether it is known which there are, or that this cannot be known now."""
        return self._index.listed or self._failed

    async def follow(self) -> None:
        """Keep the versions current until cancelled."""
        await self._index.follow()

    async def values(self, wanted: Iterable[SecretKey]) -> dict[SecretKey, str]:
        """Return, in base64, what there is of `wanted`; reads only what is new, and forgets the rest.

        Raises:
            KubernetesError: one of them cannot be read now.
        """
        wanted = set(wanted)
        self._named = frozenset(secret.name for secret in wanted)
        self._read = {name: read for name, read in self._read.items() if name in self._named}
        stale = [name for name in sorted(self._named) if self._is_stale(name)]
        for begin in range(0, len(stale), AT_ONCE):
            await asyncio.gather(*map(self._fetch, stale[begin : begin + AT_ONCE]))
        found = {}
        for secret in wanted:
            value = self._read[secret.name][1].get(secret.key) if secret.name in self._read else None
            if value is not None:
                found[secret] = value
        return found

    def _version(self, name: str) -> object:
        return ((self._index.objects.get(name) or {}).get("metadata") or {}).get("resourceVersion")

    def _is_stale(self, name: str) -> bool:
        if name not in self._index.objects:
            self._read.pop(name, None)
            return False
        return name not in self._read or self._read[name][0] != self._version(name)

    async def _fetch(self, name: str) -> None:
        version = self._version(name)
        try:
            found = await self._api.call("GET", f"{self._path}/{name}")
        except KubernetesError as error:
            if error.status != _NOT_FOUND:
                raise
            self._read.pop(name, None)
            return
        data = found.get("data") or {}
        self._read[name] = (version, {str(key): str(value) for key, value in data.items() if _is_text(value)})

    def _index_broken(self, reason: str) -> None:
        self._broken(reason)
        if not self._failed:
            self._failed = True
            self._changed()

    def _index_changed(self) -> None:
        # Other Secrets of the namespace, which may change by the minute, are nobody's business here.
        if not self._told or any(self._is_other(name) for name in self._named):
            self._told = True
            self._changed()

    def _is_other(self, name: str) -> bool:
        known = self._read.get(name)
        return (known is None) is (name in self._index.objects) or (
            known is not None and known[0] != self._version(name)
        )


def _is_text(value: Any) -> bool:
    return isinstance(value, str)
