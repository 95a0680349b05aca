"""What was wanted, what was said of it, and what is in force: three things that belong together."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, field, replace
from typing import Final

from control_plane.controller.resources import CustomResource, Key, SecretKey, secrets_named
from control_plane.controller.verdicts import Standing, Verdict, Verdicts

SECRET: Final = "Secret"
UNKNOWN: Final = "UnknownReference"


@dataclass(frozen=True, slots=True)
class View:
    """`standing` is not older than `verdicts`, which is of `wanted`; `missing` are Secrets that it names."""

    wanted: Mapping[Key, CustomResource] = field(repr=False)
    verdicts: Verdicts
    standing: Standing
    missing: Set[SecretKey] = frozenset()

    def verdict(self, resource: CustomResource) -> Verdict | None:
        """Return what was said of `resource` as it is now; None when it was another then."""
        told = self.wanted.get(resource.key)
        if told is None or (told.uid, told.generation) != (resource.uid, resource.generation):
            return None
        verdict = self.verdicts.of.get(resource.key) if told.spec == resource.spec else None
        unresolved = self._unresolved(resource) if verdict is not None else None
        return replace(verdict, unresolved=unresolved) if verdict is not None and unresolved else verdict

    def _unresolved(self, resource: CustomResource) -> tuple[str, str] | None:
        for secret in sorted(secrets_named(resource)):
            if secret in self.missing:
                return (
                    UNKNOWN,
                    f'names the Secret "{secret.name}" with the key "{secret.key}", which is not there',
                )
            refused = self.verdicts.of.get(Key(SECRET, secret.name))
            if refused is not None and not refused.accepted:
                return (
                    refused.reason,
                    f'names the Secret "{secret.name}", which is refused: {refused.message}',
                )
        return None
