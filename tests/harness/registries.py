"""Registries for tests: a real store, a clock that is set, and a store that fails when told to."""

from __future__ import annotations

import contextlib
import os
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import structlog

from control_plane.registry.errors import RegistryError
from control_plane.registry.ports import Reading, Sealer, Store, Writing
from control_plane.registry.registry import Registry
from control_plane.registry.values import Actor
from control_plane.resources.loading import RawDocument
from control_plane.secrets.fernet import FernetSealer
from control_plane.secrets.key_source import KeyFile

ACTOR = Actor("tester", "admin", "127.0.0.1")
START = datetime(2030, 1, 1, tzinfo=UTC)


class SetClock:
    """A wall clock that moves when told to, backwards too."""

    def __init__(self, at: datetime = START) -> None:
        self.at = at

    def __call__(self) -> datetime:
        """Return what it shows."""
        return self.at

    def move(self, **by: float) -> None:
        """Move by the arguments of a timedelta."""
        self.at += timedelta(**by)


class FlakyStore:
    """A store that raises `failure` at each use while that is set."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.failure: RegistryError | None = None

    @property
    def name(self) -> str:
        """The store's own."""
        return self._store.name

    async def open(self) -> None:
        """Open it."""
        await self._store.open()

    async def close(self) -> None:
        """Close it."""
        await self._store.close()

    @contextlib.asynccontextmanager
    async def read(self) -> AsyncIterator[Reading]:
        """Look, or fail."""
        self._fail()
        async with self._store.read() as reading:
            yield reading

    @contextlib.asynccontextmanager
    async def write(self) -> AsyncIterator[Writing]:
        """Change, or fail at the commit."""
        self._fail()
        async with self._store.write() as writing:
            yield writing

    @contextlib.asynccontextmanager
    async def append(self) -> AsyncIterator[Writing]:
        """Add, or fail."""
        self._fail()
        async with self._store.append() as writing:
            yield writing

    async def watch(self, wake: Callable[[], None]) -> None:
        """Watch it."""
        await self._store.watch(wake)

    def _fail(self) -> None:
        if self.failure is not None:
            raise self.failure


def new_registry(
    store: Store,
    folder: Path,
    *,
    clock: Callable[[], datetime] | None = None,
    poll_s: float = 0.05,
    sealer: Callable[[KeyFile], Sealer] = FernetSealer,
) -> Registry:
    """Return a registry over `store` with its secrets' key in `folder`, not opened yet."""
    return Registry(
        store,
        sealer(KeyFile(folder / "secret.key", os.urandom)),
        now=clock or SetClock(),
        random_bytes=os.urandom,
        log=structlog.get_logger("test"),
        poll_s=poll_s,
    )


def raw(kind: str, name: str, **spec: Any) -> RawDocument:
    """Return a document as if read from a file."""
    return RawDocument({"kind": kind, "metadata": {"name": name}, "spec": spec}, "test.yaml")


def backend(name: str = "b", url: str = "http://h/v1", **spec: Any) -> RawDocument:
    """Return a Backend."""
    return raw("Backend", name, url=url, **spec)


def model(name: str = "m", backend: str = "b", **spec: Any) -> RawDocument:
    """Return a Model with one version at `backend`."""
    return raw("Model", name, versions=[{"name": "v", "backend": backend}], **spec)


def consumer(name: str = "c", tenant: str = "t", **spec: Any) -> RawDocument:
    """Return a Consumer."""
    return raw("Consumer", name, tenant=tenant, **spec)
