"""What is personal or secret in a text, by name: the closed set of `redaction.entities` and of its counter.

A new one is named here and found in `ext_proc.redaction.detectors`.
"""

from __future__ import annotations

from typing import Final, Literal, get_args

Entity = Literal["phone", "identity", "email", "card", "key"]
ENTITIES: Final[tuple[Entity, ...]] = get_args(Entity)
