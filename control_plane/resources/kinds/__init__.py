"""The kinds of document, one file each: fields, defaults, and what one document can be checked for alone.

Attributes are snake_case with units (`ttl_ms`); written names are camelCase (`ttl`). A field whose
capability is not built yet is listed in `control_plane.resources.unbuilt`.
"""

from __future__ import annotations

from typing import Final

from control_plane.resources.kinds.backend import BackendSpec
from control_plane.resources.kinds.consumer import ConsumerSpec
from control_plane.resources.kinds.model import ModelSpec
from control_plane.resources.kinds.pin import PinSpec
from control_plane.resources.kinds.policy import PolicySpec
from control_plane.resources.kinds.release import ReleaseSpec
from control_plane.resources.kinds.spec import Spec
from control_plane.resources.kinds.tier import TierSpec

KINDS: Final[dict[str, type[Spec]]] = {
    "Backend": BackendSpec,
    "Model": ModelSpec,
    "Tier": TierSpec,
    "Consumer": ConsumerSpec,
    "Policy": PolicySpec,
    "Release": ReleaseSpec,
    "Pin": PinSpec,
}
