"""The door (plain ASGI): finds the caller by bearer token or session cookie, and lets nobody else past.

Open to everybody are health and login only. A browser without a session gets the login page.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from control_plane.api.caller import note_caller, noted_session, source_of
from control_plane.api.problems import problem, store_unavailable
from control_plane.api.session_cookie import renewing, session_cookie
from control_plane.auth.errors import TokenRefusedError, TooManyFailuresError
from control_plane.auth.identity import Identity
from control_plane.auth.sessions import Session
from control_plane.registry.errors import StoreUnavailableError

OPEN_PATHS: Final = frozenset({"/healthz", "/readyz", "/login"})
# Changes by a form, which cannot send a header: they check the form's own field.
FORM_PATHS: Final = frozenset({"/logout"})
CSRF_HEADER: Final = "x-csrf-token"
SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})
NO_TOKEN: Final = "a valid API token is needed: send it as `Authorization: Bearer ort_…`, or log in at /login"
FORGED: Final = f"a change by a logged-in browser has to repeat its session's {CSRF_HEADER}"


class Gate(Protocol):
    """Tells who shows a token."""

    async def admit(self, token: bytes, source: str) -> Identity:
        """Return whose token this is."""

    async def holder(self, token_id: str) -> Identity:
        """Return who holds the token with this id."""


class Sessions(Protocol):
    """Knows the browsers that are logged in."""

    def find(self, cookie: str) -> Session | None:
        """Return the session of a cookie."""


LoginPage = Callable[[Scope], Response]
"""From the request of a browser to the page (401) that asks for a token."""


class Door:
    """ASGI middleware that lets in whoever shows a valid token or session."""

    def __init__(self, app: ASGIApp, *, gate: Gate, sessions: Sessions, login_page: LoginPage) -> None:
        self._app = app
        self._gate = gate
        self._sessions = sessions
        self._login_page = login_page

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, or refuse it."""
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
            return
        if scope["type"] != "http" or scope["path"] in OPEN_PATHS:
            await self._app(scope, receive, send)
            return
        refusal = await self._find_caller(scope)
        session = noted_session(scope)
        if session is not None and session.renewed:
            send = renewing(send, scope, session.renewed)
        await (refusal or self._app)(scope, receive, send)

    async def _find_caller(self, scope: Scope) -> Response | None:
        """Note the caller in `scope`; return the answer to a caller who is not let in."""
        headers = Headers(scope=scope)
        shown = headers.getlist("authorization")
        try:
            if shown:
                scheme, _, token = shown[0].partition(" ")
                if len(shown) > 1 or scheme.lower() != "bearer" or not token.strip():
                    return unauthorized()
                token_bytes = token.strip().encode("latin-1")
                note_caller(scope, await self._gate.admit(token_bytes, source_of(scope)))
                return None
            session = self._session(headers)
            if session is not None:
                note_caller(scope, await self._gate.holder(session.token_id), session)
                return _forged(scope, headers, session)
        except TokenRefusedError:
            if shown:
                return unauthorized()
        except TooManyFailuresError as error:
            return too_many(error)
        except StoreUnavailableError as error:
            return store_unavailable(error)
        if scope["method"] in SAFE and "text/html" in headers.get("accept", ""):
            return self._login_page(scope)
        return unauthorized()

    def _session(self, headers: Headers) -> Session | None:
        cookie = session_cookie(headers)
        return self._sessions.find(cookie) if cookie else None


def _forged(scope: Scope, headers: Headers, session: Session) -> Response | None:
    if scope["method"] in SAFE or scope["path"] in FORM_PATHS:
        return None
    return None if session.confirms(headers.get(CSRF_HEADER, "")) else problem(403, FORGED)


def unauthorized() -> Response:
    """Return the one answer to every missing or wrong token."""
    return problem(401, NO_TOKEN, headers={"www-authenticate": "Bearer"})


def too_many(error: TooManyFailuresError) -> Response:
    """Return the answer to a source that guesses."""
    detail = "too many wrong tokens came from this address; wait and try again"
    return problem(429, detail, headers={"retry-after": str(error.retry_after_s)})
