"""For every test: a run takes less time when garbage is looked for where there may be some."""

from __future__ import annotations

import gc

from ext_proc.quick_start import started


def pytest_configure() -> None:
    """Collect no garbage while test files are imported, a quarter of which it would take."""
    gc.disable()


def pytest_collection_finish() -> None:
    """Collect garbage from now on, among what tests make: thousands of tests and modules live to the end."""
    started()
