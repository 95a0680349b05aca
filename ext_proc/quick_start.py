"""A quick start of a process: what its imports need not do. Half a mesh's start is imports."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def quick_imports() -> Iterator[None]:
    """Import what a process is made of within this block.

    Garbage collections stay off after it, as modules are no garbage, until the process calls `started`. Rich
    counts as not installed within it: structlog and httpx load it whenever they can, for terminals that no
    process of ours writes to.
    """
    gc.disable()
    hidden = "rich" not in sys.modules
    if hidden:
        # What the import system takes for a module that cannot be found.
        sys.modules["rich"] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        if hidden:
            del sys.modules["rich"]


def started(thresholds: tuple[int, int, int] | None = None) -> None:
    """Collect garbage from now on. What lives already, modules and the first policy, is looked at no more."""
    gc.collect()
    gc.freeze()
    if thresholds is not None:
        gc.set_threshold(*thresholds)
    gc.enable()
