"""Which version of the Model answers: by weight, the same one for the same caller.

The sticky key is the Consumer, else the session; a caller with neither is drawn anew each time.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable

from ext_proc.contract.headers import SESSION
from ext_proc.contract.snapshot import Model, Version
from ext_proc.exchange import Answer, Exchange, Forward
from ext_proc.pipeline import PassingStage


class Assign(PassingStage):
    """Fills in `version` and its `backend`. `draw` returns uniform numbers in [0, 1)."""

    def __init__(self, draw: Callable[[], float]) -> None:
        self._draw = draw

    async def on_request(self, exchange: Exchange) -> Answer | Forward | None:
        """Choose; a Model with one version costs nothing."""
        model = exchange.model
        if model is None:
            return None
        if len(model.versions) == 1:
            version = model.versions[0]
        else:
            key = sticky_key(exchange)
            version = pick(model, point(model.name, key) if key else self._draw())
        exchange.version = version
        exchange.backend = exchange.loaded.snapshot.backends[version.backend]
        return None


def sticky_key(exchange: Exchange) -> str:
    """Return what ties a caller to its version, or "" when there is nothing."""
    if exchange.consumer is not None:
        return f"consumer:{exchange.consumer.name}"
    session = exchange.head.headers.get(SESSION)
    return f"session:{exchange.tenant}:{session}" if session else ""


def point(salt: str, key: str) -> float:
    """Return the place of `key` in [0, 1): uniform over keys, constant for one key and salt."""
    digest = hashlib.sha256(f"{salt}\0{key}".encode("utf-8", "surrogateescape")).digest()
    return int.from_bytes(digest[:7]) / (1 << 56)


def pick(model: Model, place: float) -> Version:
    """Return the version whose share of the weights covers `place` in [0, 1)."""
    total = sum(version.weight for version in model.versions)
    reached = 0.0
    chosen = None
    for version in model.versions:
        if version.weight <= 0:
            continue
        chosen = version
        reached += version.weight / total
        if place < reached:
            break
    if chosen is None:
        raise ValueError(f"model {model.name} has no version with a weight")
    return chosen
