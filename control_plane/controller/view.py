"""What was wanted, what was said of it, and what is in force: three things that belong together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from control_plane.controller.resources import CustomResource, Key
from control_plane.controller.verdicts import Standing, Verdict, Verdicts


@dataclass(frozen=True, slots=True)
class View:
    """`standing` is not older than `verdicts`, which is of `wanted`."""

    wanted: Mapping[Key, CustomResource] = field(repr=False)
    verdicts: Verdicts
    standing: Standing

    def verdict(self, resource: CustomResource) -> Verdict | None:
        """Return what was said of `resource` as it is now; None when it was another then."""
        told = self.wanted.get(resource.key)
        if told is None or (told.uid, told.generation) != (resource.uid, resource.generation):
            return None
        return self.verdicts.of.get(resource.key) if told.spec == resource.spec else None
