"""The kinds of document as paths, scopes and the command line name them. Imports no kind, to load quickly."""

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
