"""Custom resources as the API server gives them, as far as the controller looks at them (pure)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from control_plane.resources.parsing import API_VERSION
from control_plane.resources.plurals import PLURAL_OF

ROOT: Final = f"/apis/{API_VERSION}"


class Key(NamedTuple):
    """What names a resource in the whole mesh."""

    kind: str
    name: str


class SecretKey(NamedTuple):
    """A Secret and which entry of its data."""

    name: str
    key: str


@dataclass(frozen=True, slots=True)
class CustomResource:
    """One custom resource. `generation` grows with each change of `spec`, never with one of `status`."""

    key: Key
    uid: str = ""
    generation: int = 0
    spec: Mapping[str, Any] = field(default_factory=dict, repr=False)
    status: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @property
    def path(self) -> str:
        """Where its status is written."""
        return f"{ROOT}/{PLURAL_OF[self.key.kind]}/{self.key.name}/status"


def custom_resources(kind: str, objects: Iterable[Mapping[str, Any]]) -> Iterator[CustomResource]:
    """Yield what `objects` of one kind want. One that is being deleted wants nothing any more."""
    for value in objects:
        metadata = value.get("metadata") or {}
        if metadata.get("deletionTimestamp"):
            continue
        yield CustomResource(
            Key(kind, str(metadata.get("name"))),
            str(metadata.get("uid") or ""),
            int(metadata.get("generation") or 0),
            _mapping(value.get("spec")),
            _mapping(value.get("status")),
        )


def wants(value: Mapping[str, Any]) -> object:
    """Return what of an object is mirrored; its status, which is our own, is not."""
    metadata = value.get("metadata") or {}
    told = (metadata.get("uid"), metadata.get("generation"), metadata.get("deletionTimestamp"))
    return told, value.get("spec")


def secrets_named(resource: CustomResource) -> set[SecretKey]:
    """Return the Secrets that `resource` names: a Backend's credentials, what a Release signs with."""
    found: set[SecretKey] = set()
    for place in _places(resource):
        reference = _mapping(_mapping(place).get("secretRef"))
        name, key = reference.get("name"), reference.get("key")
        if isinstance(name, str) and isinstance(key, str):
            found.add(SecretKey(name, key))
    return found


def _places(resource: CustomResource) -> list[Any]:
    if resource.key.kind == "Backend":
        return [resource.spec.get("credentials")]
    notify = resource.spec.get("notify") if resource.key.kind == "Release" else None
    return [_mapping(entry).get("secret") for entry in notify] if isinstance(notify, list) else []


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
