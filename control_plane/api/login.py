"""Logging in with a token, and out: the form, the session's cookie, and where the browser goes then."""

from __future__ import annotations

import re
from dataclasses import dataclass
from html import escape
from typing import Annotated, Final, Protocol

from fastapi import FastAPI, Query, Request
from starlette.responses import RedirectResponse, Response
from starlette.types import Scope

from control_plane.api.bodies import form
from control_plane.api.caller import session_of, source_of
from control_plane.api.door import FORGED, Gate
from control_plane.api.errors import RefusedRequestError
from control_plane.api.guard import needs
from control_plane.api.html import page
from control_plane.api.problems import store_unavailable
from control_plane.api.session_cookie import COOKIE, keep_cookie, plain_loopback, session_cookie
from control_plane.auth.errors import TokenRefusedError, TooManyFailuresError
from control_plane.auth.roles import Need, Role
from control_plane.auth.sessions import Session
from control_plane.registry.errors import StoreUnavailableError

WRONG: Final = "This token is not valid."
TOO_MANY: Final = "Too many wrong tokens came from this address. Wait a little."
NO_VIEWER: Final = "This token is for a sidecar; it opens nothing here."
INSECURE: Final = "Over plain HTTP a browser keeps the session on localhost only. Elsewhere use HTTPS."
Next = Annotated[str, Query(alias="next", description="Where the browser goes afterwards.")]
_LOCAL_PATH: Final = re.compile(r"/(?:[A-Za-z0-9._~-][A-Za-z0-9._~/-]*)?")


class Sessions(Protocol):
    """Keeps the browsers that are logged in."""

    def begin(self, token_id: str) -> Session:
        """Return a new session."""

    def end(self, cookie: str) -> None:
        """Forget a session."""


@dataclass(frozen=True, slots=True)
class LoginRoutes:
    """`/login` and `/logout`."""

    gate: Gate
    sessions: Sessions

    async def show(self, request: Request, target: Next = "/") -> Response:
        """Answer the form."""
        return login_form(_target(target), 200, insecure=_insecure(request))

    async def enter(self, request: Request) -> Response:
        """Begin a session for whoever shows a valid token."""
        if request.headers.get("sec-fetch-site") == "cross-site":
            raise RefusedRequestError(403, "another site may not log a browser in here")
        fields = await form(request)
        target = _target(fields.get("next", "/"))
        insecure = _insecure(request)
        try:
            token = fields.get("token", "").strip().encode()
            identity = await self.gate.admit(token, source_of(request.scope))
        except TokenRefusedError:
            return login_form(target, 401, WRONG, insecure=insecure)
        except TooManyFailuresError as error:
            headers = {"retry-after": str(error.retry_after_s)}
            return login_form(target, 429, TOO_MANY, headers, insecure=insecure)
        except StoreUnavailableError as error:
            return store_unavailable(error)
        if not identity.role.covers(Role.VIEWER):
            return login_form(target, 403, NO_VIEWER, insecure=insecure)
        session = self.sessions.begin(identity.token_id)
        answer = RedirectResponse(target, 303)
        keep_cookie(answer, request, session.cookie)
        return answer

    async def leave(self, request: Request) -> Response:
        """End the caller's session."""
        session = session_of(request)
        if session is not None:
            fields = await form(request)
            if not session.confirms(fields.get("csrf", "")):
                raise RefusedRequestError(403, FORGED)
            self.sessions.end(session_cookie(request.headers) or "")
        answer = RedirectResponse("/login", 303)
        answer.delete_cookie(COOKIE, path="/")
        return answer


def login_form(
    target: str,
    status: int,
    message: str = "",
    headers: dict[str, str] | None = None,
    *,
    insecure: bool = False,
) -> Response:
    """Return the page that asks for a token and leads to `target`."""
    found = dict(headers or {})
    if status == 401:
        found["www-authenticate"] = "Bearer"
    said = f'<p class="bad" role="alert">{escape(message)}</p>' if message else ""
    warned = f'<p class="dim">{escape(INSECURE)}</p>' if insecure else ""
    body = (
        '<form class="login" method="post" action="/login"><h1>Outrigger</h1>'
        f'{said}<label for="token">API token</label>'
        '<input id="token" name="token" type="password" autocomplete="current-password" required autofocus>'
        f'<input type="hidden" name="next" value="{escape(target)}">'
        "<button>Log in</button>"
        '<p class="dim">The first start prints an admin token; '
        "<code>outrigger token create</code> makes others.</p>"
        f"{warned}</form>"
    )
    return page("Outrigger: log in", body, status=status, headers=found)


def asks_to_log_in(scope: Scope) -> Response:
    """Return the page for a browser that asked for something without a session."""
    return login_form(_target(scope["path"]), 401, insecure=_insecure(Request(scope)))


def _target(path: str) -> str:
    """Return `path` if it is a plain path here, else `/`: nobody is led elsewhere."""
    return path if _LOCAL_PATH.fullmatch(path) and path not in ("/login", "/logout") else "/"


def _insecure(request: Request) -> bool:
    """Say whether a browser would not keep the cookie: plain HTTP, and no proxy that says otherwise."""
    forwarded = request.headers.get("x-forwarded-proto", "").lower()
    return request.url.scheme == "http" and forwarded != "https" and not plain_loopback(request)


def add_login_routes(app: FastAPI, gate: Gate, sessions: Sessions) -> None:
    """Serve `/login` and `/logout`."""
    routes = LoginRoutes(gate, sessions)
    app.router.add_api_route("/login", routes.show, methods=["GET"], include_in_schema=False)
    app.router.add_api_route("/login", routes.enter, methods=["POST"], include_in_schema=False)
    anybody = needs(Need(Role.SIDECAR))
    app.router.add_api_route(
        "/logout", routes.leave, methods=["POST"], include_in_schema=False, openapi_extra=anybody
    )
