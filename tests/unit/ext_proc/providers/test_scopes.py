"""Whom a provider's word concerns."""

from __future__ import annotations

import pytest

from ext_proc.contract.snapshot import Backend, CredentialRef
from ext_proc.providers.scopes import KEYS_AT_MOST, Scopes, backend_of, key_of, scope_of

OWN = Backend("b", "http://x/v1", credential=CredentialRef("env", "KEY"))
PASSING = Backend("b", "http://x/v1")
TENANT = f"key:{'0123456789abcdef' * 4}"


@pytest.mark.parametrize(
    ("backend", "tenant", "scope"),
    [
        pytest.param(PASSING, TENANT, "b#0123456789abcdef", id="a key that passes through"),
        pytest.param(OWN, TENANT, "b", id="replaced by the Backend's"),
        pytest.param(PASSING, "tenant:team-a", "b", id="a Consumer, whose key stays here"),
        pytest.param(PASSING, "workload:shop", "b", id="nobody's"),
    ],
)
def test_the_scope_of_a_call(backend: Backend, tenant: str, scope: str) -> None:
    """A key of the caller's own is a scope, where the Backend is asked with it."""
    assert scope_of(backend.name, key_of(backend, tenant)) == scope
    assert backend_of(scope) == "b"


def test_what_is_known_is_found_by_its_backend() -> None:
    """And each scope by itself."""
    scopes: Scopes[int] = Scopes()
    scopes.put("b#1", 1)
    assert "b" in scopes
    assert "c" not in scopes
    assert [scopes.get(one) for one in ("b#1", "b#2", "b", "c")] == [1, None, None, None]
    scopes.drop("b#1")
    scopes.drop("c")
    assert "b" not in scopes


def test_a_backend_is_forgotten_with_its_keys() -> None:
    """By name, or because it is not wanted any more."""
    scopes: Scopes[int] = Scopes()
    for scope in ("b", "b#1", "c", "d#1"):
        scopes.put(scope, 1)
    scopes.forget("b")
    scopes.keep({"c"}.__contains__)
    assert [one for one in "bcd" if one in scopes] == ["c"]


def test_too_many_keys_push_each_other_out() -> None:
    """Never what is known of the whole Backend, or of others."""
    scopes: Scopes[int] = Scopes()
    for scope in ("b", "c#1", *(f"b#{number}" for number in range(2 * KEYS_AT_MOST))):
        scopes.put(scope, 1)
    kept = [number for number in range(2 * KEYS_AT_MOST) if scopes.get(f"b#{number}")]
    assert kept == list(range(KEYS_AT_MOST, 2 * KEYS_AT_MOST))
    assert scopes.get("b") == scopes.get("c#1") == 1


def test_what_is_over_is_forgotten_in_turn() -> None:
    """One look a call, and in the end none is left of those that never come again."""
    scopes: Scopes[int] = Scopes()
    for number in range(3):
        scopes.put(f"b#{number}", number)
    for _ in range(3):
        scopes.tidy("b", lambda number: number != 1)
    assert [scopes.get(f"b#{number}") for number in range(3)] == [None, 1, None]
    scopes.tidy("b", lambda _: True)
    scopes.tidy("b", lambda _: True)
    assert "b" not in scopes
