"""An open registry over each kind of database, with a clock that tests set."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from control_plane.registry.registry import Registry
from control_plane.store.opening import store_for
from tests.harness.registries import SetClock, new_registry


@pytest.fixture
def clock() -> SetClock:
    """What the registry takes for the time."""
    return SetClock()


@pytest.fixture
async def replica(database: str, tmp_path: Path, clock: SetClock) -> AsyncIterator[Callable[[], Registry]]:
    """Makes registries over the same database, each to be opened by the test; closed at its end."""
    made: list[Registry] = []

    def make() -> Registry:
        made.append(new_registry(store_for(database, tmp_path), tmp_path, clock=clock))
        return made[-1]

    yield make
    for registry in made:
        await registry.close()


@pytest.fixture
async def registry(replica: Callable[[], Registry]) -> Registry:
    """One open registry."""
    registry = replica()
    await registry.open()
    return registry
