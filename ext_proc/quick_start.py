"""A quick start of a process: what its imports need not do. Half a mesh's start is imports."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

UNNEEDED: Final = ("rich", "httpx._main", "h2")
"""What structlog, httpx and httpcore load whenever they can: for terminals that no process of ours writes to,
and for HTTP/2, which none of ours asks for."""


@contextmanager
def quick_imports() -> Iterator[None]:
    """Import what a process is made of within this block.

    Garbage collections stay off after it, as modules are no garbage, until the process calls `started`.
    """
    gc.disable()
    with without(*UNNEEDED):
        yield


@contextmanager
def without(*names: str) -> Iterator[None]:
    """Have modules count as not installed within this block, but for those that are loaded already."""
    hidden = [name for name in names if name not in sys.modules]
    # What the import system takes for a module that cannot be found.
    sys.modules.update(dict.fromkeys(hidden))  # type: ignore[arg-type]
    try:
        yield
    finally:
        for name in hidden:
            del sys.modules[name]


def started(thresholds: tuple[int, int, int] | None = None) -> None:
    """Collect garbage from now on. What lives already, modules and the first policy, is looked at no more."""
    gc.collect()
    gc.freeze()
    if thresholds is not None:
        gc.set_threshold(*thresholds)
    gc.enable()
