"""Who calls, as noted in a request's scope by the door and read by everything behind it."""

from __future__ import annotations

from typing import Final

from fastapi import Request
from starlette.types import Scope

from control_plane.auth.identity import Identity
from control_plane.auth.sessions import Session
from control_plane.registry.values import Actor

_IDENTITY: Final = "outrigger.identity"
_SESSION: Final = "outrigger.session"


def note_caller(scope: Scope, identity: Identity, session: Session | None = None) -> None:
    """Note who calls, and by which session if it is a browser."""
    scope[_IDENTITY] = identity
    scope[_SESSION] = session


def identity_of(request: Request) -> Identity:
    """Return who calls; only behind the door."""
    found: Identity = request.scope[_IDENTITY]
    return found


def session_of(request: Request) -> Session | None:
    """Return the session by which the caller came, None for a token."""
    found: Session | None = request.scope[_SESSION]
    return found


def noted_session(scope: Scope) -> Session | None:
    """Return the session that was noted, None as well where nobody has been let in."""
    found: Session | None = scope.get(_SESSION)
    return found


def actor_of(request: Request) -> Actor:
    """Return the caller as the audit names them."""
    identity = identity_of(request)
    return Actor(identity.name, identity.role.value, source_of(request.scope))


def source_of(scope: Scope) -> str:
    """Return the address that a request came from."""
    client = scope.get("client")
    return str(client[0]) if client else "local"
