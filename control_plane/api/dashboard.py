"""The dashboard over HTTP: a page's address answers the shell, `/assets/…` the files that it loads."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Final

from fastapi import FastAPI, Path, Request
from starlette.responses import Response

from control_plane.api.caller import identity_of, session_of
from control_plane.api.conditions import not_modified
from control_plane.api.errors import RefusedRequestError
from control_plane.api.guard import needs
from control_plane.api.html import page_headers
from control_plane.api.problems import NOTHING_HERE
from control_plane.auth.roles import Need, Role
from control_plane.dashboard.assets import Asset, load_assets
from control_plane.dashboard.shell import PAGES, POLICY, Shell, Visitor, load_shell, path_of

# Kept, and asked about each time: a new version shows at once, and nothing is sent twice.
_CACHING: Final = "private, no-cache"


@dataclass(frozen=True, slots=True)
class DashboardRoutes:
    """The pages and their files."""

    shell: Shell
    assets: Mapping[str, Asset]

    def showing(self, page: str) -> Callable[[Request], Awaitable[Response]]:
        """Return the handler of one page."""

        async def show(request: Request) -> Response:
            identity, session = identity_of(request), session_of(request)
            visitor = Visitor(
                identity.name, identity.role.value, identity.scopes, session.csrf if session else ""
            )
            return Response(self.shell.document(page, visitor), 200, page_headers(POLICY), "text/html")

        return show

    async def file(self, request: Request, path: Annotated[str, Path()]) -> Response:
        """Answer a file, or that the browser has it already."""
        asset = self.assets.get(path)
        if asset is None:
            raise RefusedRequestError(404, NOTHING_HERE)
        headers = {"etag": asset.etag, "cache-control": _CACHING}
        if not_modified(request.headers.get("if-none-match"), asset.etag):
            return Response(status_code=304, headers=headers)
        return Response(asset.content, 200, headers, asset.media_type)


def add_dashboard(app: FastAPI) -> None:
    """Serve every page and every file."""
    routes = DashboardRoutes(load_shell(), load_assets())
    handlers: list[tuple[str, Callable[..., Awaitable[Response]]]] = [
        *((path_of(name), routes.showing(name)) for name, _ in PAGES),
        ("/assets/{path:path}", routes.file),
    ]
    for path, handler in handlers:
        app.router.add_api_route(
            path, handler, methods=["GET"], include_in_schema=False, openapi_extra=needs(Need(Role.VIEWER))
        )
