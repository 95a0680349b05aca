"""The guard: the class of all routes, which holds a route's declared need against the caller.

A need is declared in a route's OpenAPI extension, so what is documented is what is demanded. A route that
declares nothing is for admins. The guard also refuses parameters that a route does not take, and one that is
given twice: a misspelled or contradicted `dryRun` must not become a change. No route takes a list.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final

from fastapi import Request
from fastapi.routing import APIRoute
from starlette.responses import Response

from control_plane.api.caller import actor_of, identity_of
from control_plane.api.door import OPEN_PATHS, SAFE
from control_plane.api.errors import RefusedRequestError
from control_plane.api.problems import printable
from control_plane.auth.roles import Need, Role
from control_plane.registry.values import Actor
from control_plane.resources.parsing import nearest

NEED_KEY: Final = "x-outrigger-needs"
DEFAULT_NEED: Final = Need(Role.ADMIN)

RecordRefusal = Callable[[Actor, str, str, str], Awaitable[None]]
"""Writes an audit row about a refused attempt: actor, action, target, detail."""


class GuardedRoute(APIRoute):
    """A route that holds its declared need against the caller, and knows every parameter it takes."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the route's handler behind its guard."""
        handler = super().get_route_handler()
        need = _declared(self.openapi_extra)
        parameters = [item.alias for item in self.dependant.query_params]
        path = self.path

        async def guarded(request: Request) -> Response:
            if path not in OPEN_PATHS:
                await demand(request, need)
            _check_parameters(request, parameters)
            return await handler(request)

        return guarded


def needs(need: Need) -> dict[str, Any]:
    """Return the OpenAPI extension by which a route declares `need`; its guard reads the same."""
    declared = {"role": need.role.value}
    if need.scope is not None:
        declared["scope"] = need.scope
    return {NEED_KEY: declared}


def _declared(extra: dict[str, Any] | None) -> Need:
    declared = (extra or {}).get(NEED_KEY)
    return Need(Role(declared["role"]), declared.get("scope")) if declared else DEFAULT_NEED


async def demand(request: Request, need: Need) -> None:
    """Hold `need` against the caller.

    Raises:
        RefusedRequestError: the caller lacks a role or a scope (403); an attempted change is audited.
    """
    lacking = identity_of(request).lacks(need)
    if lacking is None:
        return
    if request.method not in SAFE:
        record: RecordRefusal = request.app.state.record_refusal
        await record(actor_of(request), request.method.lower(), printable(request.url.path), lacking)
    raise RefusedRequestError(403, f"this {lacking}")


def _check_parameters(request: Request, known: list[str]) -> None:
    if not request.scope["query_string"]:
        return
    seen: set[str] = set()
    for name, _ in request.query_params.multi_items():
        if name in seen:
            raise RefusedRequestError(422, f"{printable(name, 64)!r} is given twice; say it once")
        seen.add(name)
        if name not in known:
            hint = nearest(name, known) if known else "there are none here"
            raise RefusedRequestError(422, f"{printable(name, 64)!r} is no parameter of this path; {hint}")
