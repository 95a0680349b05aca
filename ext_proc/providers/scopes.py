"""Whom a provider's word concerns: all calls to a Backend, or those of one key.

A Backend with a key of its own is one scope, named as the Backend. Where the callers' own keys pass through,
a quota is each key's own: each is a scope, the Backend's name with a digest of the key. Pure.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Generic, TypeVar

from ext_proc.contract.snapshot import Backend

KEY_TENANT: Final = "key:"
"""A tenant that begins so is a caller's own key: a digest of it follows."""
KEYS_AT_MOST: Final = 1000
"""Of so many keys of one Backend something is known at the same time."""
_MARK: Final = "#"  # in no name of a Backend
_DIGITS: Final = 16

T = TypeVar("T")


def key_of(backend: Backend, tenant: str) -> str:
    """Return a short digest of the caller's own key if `backend` is asked with it, else ""."""
    if backend.credential is not None or not tenant.startswith(KEY_TENANT):
        return ""
    return tenant[len(KEY_TENANT) : len(KEY_TENANT) + _DIGITS]


def scope_of(backend: str, key: str) -> str:
    """Return the scope of calls to `backend` with the key of that digest ("": with none of the caller's)."""
    return f"{backend}{_MARK}{key}" if key else backend


def backend_of(scope: str) -> str:
    """Return the name of the Backend."""
    return scope.partition(_MARK)[0]


class Scopes(Generic[T]):
    """What is known of scopes, found by Backend. Keys that are too many push others out."""

    def __init__(self) -> None:
        self._found: dict[str, dict[str, T]] = {}

    def __contains__(self, backend: str) -> bool:
        """Whether anything is known of the Backend or one of its keys."""
        return backend in self._found

    def get(self, scope: str) -> T | None:
        """Return what is known of exactly that scope."""
        found = self._found.get(backend_of(scope))
        return found.get(scope) if found is not None else None

    def put(self, scope: str, value: T) -> None:
        """Know `value` of that scope."""
        backend = backend_of(scope)
        found = self._found.setdefault(backend, {})
        if scope not in found and len(found) > KEYS_AT_MOST:
            del found[next(known for known in found if known != backend)]
        found[scope] = value

    def drop(self, scope: str) -> None:
        """Forget what is known of exactly that scope."""
        backend = backend_of(scope)
        found = self._found.get(backend)
        if found is not None:
            found.pop(scope, None)
            if not found:
                del self._found[backend]

    def forget(self, backend: str) -> None:
        """Forget the Backend with all its keys."""
        self._found.pop(backend, None)

    def keep(self, wanted: Callable[[str], bool]) -> None:
        """Forget the Backends that are not `wanted`."""
        self._found = {backend: found for backend, found in self._found.items() if wanted(backend)}

    def tidy(self, backend: str, is_over: Callable[[T], bool]) -> None:
        """Look at the next of the Backend's scopes, in turn, and forget it if it `is_over`.

        So keys that never come again are forgotten without ever looking at all of them.
        """
        found = self._found.get(backend)
        if found is None:
            return
        scope = next(iter(found))
        value = found.pop(scope)
        if not is_over(value):
            found[scope] = value
        elif not found:
            del self._found[backend]
