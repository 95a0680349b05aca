"""The part of a Policy that is tuned, as documents (pure)."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any, Final

from control_plane.resources.quantities import duration_text, parse_duration_ms
from control_plane.tools.tune.settings import Setting

DEFAULT_WAIT: Final = "200ms"
DEFAULT_SPLIT: Final = 20
DEFAULT_SIZE: Final = 50


class NotBatching(ValueError):
    """The Policy does not batch, so nothing of it can be tuned."""


def bare(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return a document as it is written: without what only the server adds."""
    version = document.get("apiVersion")
    return {
        **({} if version is None else {"apiVersion": version}),
        "kind": "Policy",
        "metadata": {"name": document["metadata"]["name"]},
        "spec": deepcopy(document.get("spec") or {}),
    }


def check_batching(document: Mapping[str, Any]) -> None:
    """Check that a Policy batches.

    Raises:
        NotBatching: its mode is none.
    """
    if ((document.get("spec") or {}).get("batch") or {}).get("mode", "none") == "none":
        raise NotBatching("does not batch; set its batch.mode to native, array or packed first")


def with_setting(document: Mapping[str, Any], setting: Setting) -> dict[str, Any]:
    """Return the Policy with a setting: `maxSize`, with a window `maxWait`, and `splitAbove` where a smaller
    one would split what `maxSize` allows.
    """
    made = bare(document)
    batch = made["spec"].setdefault("batch", {})
    batch["maxSize"] = setting.size
    if setting.window_ms is not None:
        batch["maxWait"] = duration_text(setting.window_ms)
    if batch.get("splitAbove", DEFAULT_SPLIT) < setting.size:
        batch["splitAbove"] = setting.size
    return made


def changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return each field of `batch` that differs: its name, and what it was and is (None: the default)."""
    old, new = ((one.get("spec") or {}).get("batch") or {} for one in (before, after))
    return [
        {"field": f"spec.batch.{name}", "before": old.get(name), "after": new.get(name)}
        for name in (*new, *(name for name in old if name not in new))
        if old.get(name) != new.get(name)
    ]


def window_of(document: Mapping[str, Any]) -> int:
    """Return the window that a Policy has, in milliseconds."""
    batch = (document.get("spec") or {}).get("batch") or {}
    return parse_duration_ms(batch.get("maxWait", DEFAULT_WAIT))
