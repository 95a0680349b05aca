"""What replicas tell each other, as bytes: JSON, packed. What a newer build adds is left out."""

from __future__ import annotations

import zlib
from functools import cache
from typing import Any, Final

from pydantic import TypeAdapter

from control_plane.push.sidecars import Told
from control_plane.push.views import SidecarView

# Packing twice as well takes five times as long.
_LEVEL: Final = 1
# Counters and histograms of each sidecar: `totals` tell their sum.
_LEFT_OUT: Final = {"__all__": {"versions", "epoch"}}


@cache
def _views() -> TypeAdapter[tuple[SidecarView, ...]]:
    # Made when it is needed first: a control plane that is alone never does.
    return TypeAdapter(tuple[SidecarView, ...])


@cache
def _told() -> TypeAdapter[Told]:
    return TypeAdapter(Told)


def views_bytes(views: tuple[SidecarView, ...]) -> bytes:
    """Return sidecars as bytes, without what each counted."""
    return _packed(_views().dump_json(views, exclude=_LEFT_OUT, exclude_defaults=True))


def views_of(content: bytes) -> tuple[SidecarView, ...]:
    """Read them back; nothing is none.

    Raises:
        ValueError: this build cannot read them.
    """
    return _views().validate_json(_unpacked(content)) if content else ()


def totals_bytes(total: Told) -> bytes:
    """Return what was counted as bytes."""
    return _packed(_told().dump_json(total, exclude_defaults=True))


def totals_of(content: bytes) -> Told:
    """Read it back; nothing is nothing counted.

    Raises:
        ValueError: this build cannot read it.
    """
    return _told().validate_json(_unpacked(content)) if content else Told()


def _packed(content: bytes) -> bytes:
    return zlib.compress(content, _LEVEL)


def _unpacked(content: bytes) -> Any:
    try:
        return zlib.decompress(content)
    except zlib.error:
        raise ValueError("it is not packed as this build packs") from None
