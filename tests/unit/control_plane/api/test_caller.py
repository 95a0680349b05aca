"""Who calls, behind the door."""

from fastapi import Request

from control_plane.api.caller import actor_of, identity_of, note_caller, session_of, source_of
from control_plane.auth.identity import Identity
from control_plane.auth.roles import Role
from control_plane.auth.sessions import Session
from control_plane.registry.values import Actor
from tests.unit.control_plane.api.asgi import scope_of


def test_the_caller_is_noted_and_read() -> None:
    """With the session, if there is one, and as the audit names them."""
    identity, session = Identity("t1", "ci", Role.EDITOR), Session("t1", "cookie", "csrf")
    scope = scope_of()
    note_caller(scope, identity)
    request = Request(scope)
    assert (identity_of(request), session_of(request)) == (identity, None)
    assert actor_of(request) == Actor("ci", "editor", "10.0.0.7")
    note_caller(scope, identity, session)
    assert session_of(request) == session


def test_without_an_address_the_source_is_local() -> None:
    """As over a Unix socket."""
    assert source_of({**scope_of(), "client": None}) == "local"
