"""The kinds of document as paths name them."""

from __future__ import annotations

from typing import Final

KIND_OF: Final = {
    "backends": "Backend",
    "models": "Model",
    "tiers": "Tier",
    "consumers": "Consumer",
    "policies": "Policy",
    "releases": "Release",
    "pins": "Pin",
}
PLURAL_OF: Final = {kind: plural for plural, kind in KIND_OF.items()}
