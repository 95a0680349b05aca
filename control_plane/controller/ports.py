"""What the controller needs of the outside: an API server, a log, and time."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any, Protocol

Query = Sequence[tuple[str, str]]


class ApiServer(Protocol):
    """Calls to a Kubernetes API server. Every method may raise `KubernetesError`."""

    async def call(
        self,
        method: str,
        path: str,
        *,
        body: object = None,
        query: Query = (),
        content_type: str = ...,
        accept: str = ...,
        within_s: float = ...,
    ) -> dict[str, Any]:
        """Return what one call answers."""
        ...

    def watch(
        self, path: str, *, query: Query = (), accept: str = ..., silent_s: float = ...
    ) -> AsyncIterator[dict[str, Any]]:
        """Yield the events of a watch until it ends."""
        ...


class Log(Protocol):
    """Where the controller tells what it does."""

    def info(self, event: str, **fields: object) -> object:
        """Tell."""
        ...

    def warning(self, event: str, **fields: object) -> object:
        """Warn."""
        ...

    def error(self, event: str, **fields: object) -> object:
        """Tell of a failure."""
        ...
