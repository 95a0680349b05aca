"""`/docs` and `/openapi.json`: the API described by itself, without anything from elsewhere.

Swagger UI (https://github.com/swagger-api/swagger-ui) comes from the package `fastapi-swagger` and is served
from here, so that it works offline and under a policy that allows no foreign script.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from html import escape
from importlib import resources
from typing import Annotated, Any, Final

import orjson
from fastapi import FastAPI, Path, Request
from starlette.responses import Response

from control_plane.api.caller import session_of
from control_plane.api.door import CSRF_HEADER
from control_plane.api.errors import RefusedRequestError
from control_plane.api.guard import needs
from control_plane.api.html import page_headers
from control_plane.api.operations import JSON
from control_plane.api.problems import NOTHING_HERE
from control_plane.auth.roles import Need, Role

_PACKAGE: Final = "fastapi_swagger.resources"
_FILES: Final = {
    "swagger-ui-bundle.js": "text/javascript",
    "swagger-ui.css": "text/css",
    "favicon-32x32.png": "image/png",
}
# Swagger UI sets styles on elements and has pictures in its style sheet; scripts are our own files only.
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_START: Final = """\
"use strict";
const csrf = document.querySelector('meta[name="csrf-token"]').content;
SwaggerUIBundle({
  url: "/openapi.json",
  dom_id: "#reference",
  deepLinking: true,
  docExpansion: "list",
  defaultModelsExpandDepth: 0,
  persistAuthorization: false,
  validatorUrl: null,
  requestInterceptor: (request) => {
    if (csrf) request.headers["%s"] = csrf;
    return request;
  },
});
"""


@dataclass(frozen=True, slots=True)
class ReferenceRoutes:
    """`/docs`, what it loads, and `/openapi.json`."""

    describe: Callable[[], dict[str, Any]]

    async def openapi(self) -> Response:
        """Answer the OpenAPI document."""
        return Response(orjson.dumps(self.describe()), media_type=JSON)

    async def show(self, request: Request) -> Response:
        """Answer the page."""
        session = session_of(request)
        csrf = session.csrf if session is not None else ""
        text = (
            '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Outrigger: API</title>'
            f'<meta name="csrf-token" content="{escape(csrf)}">'
            '<link rel="stylesheet" href="/docs/swagger-ui.css">'
            '<link rel="icon" href="/docs/favicon-32x32.png">'
            '</head><body><div id="reference"></div><script src="/docs/swagger-ui-bundle.js"></script>'
            '<script src="/docs/start.js"></script></body></html>'
        )
        return Response(text, 200, page_headers(POLICY), "text/html")

    async def file(self, name: Annotated[str, Path()]) -> Response:
        """Answer one of the page's files."""
        if name == "start.js":
            return Response(_START % CSRF_HEADER, media_type="text/javascript")
        if name not in _FILES:
            raise RefusedRequestError(404, NOTHING_HERE)
        content = resources.files(_PACKAGE).joinpath(name).read_bytes()
        return Response(content, 200, {"cache-control": "private, max-age=86400"}, _FILES[name])


def add_reference_routes(app: FastAPI, describe: Callable[[], dict[str, Any]]) -> None:
    """Serve the API's description; `describe` makes the OpenAPI document."""
    routes = ReferenceRoutes(describe)
    for path, handler in (
        ("/openapi.json", routes.openapi),
        ("/docs", routes.show),
        ("/docs/{name}", routes.file),
    ):
        app.router.add_api_route(
            path,
            handler,
            methods=["GET"],
            include_in_schema=False,
            openapi_extra=needs(Need(Role.VIEWER)),
        )
