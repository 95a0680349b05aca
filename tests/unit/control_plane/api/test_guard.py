"""What a route declares is what it demands."""

from collections.abc import AsyncIterator
from typing import Annotated

import httpx
import pytest
from fastapi import FastAPI, Query
from starlette.types import ASGIApp, Receive, Scope, Send

from control_plane.api.caller import note_caller
from control_plane.api.guard import GuardedRoute, needs
from control_plane.api.problems import add_problem_handlers
from control_plane.auth.identity import Identity
from control_plane.auth.roles import Need, Role
from control_plane.registry.values import Actor


class Introduced:
    """Notes a caller, as the door does."""

    def __init__(self, app: ASGIApp, role: Role) -> None:
        self._app = app
        self._role = role

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request of the caller."""
        note_caller(scope, Identity("t", "t", self._role))
        await self._app(scope, receive, send)


Refusals = list[tuple[str, str]]


@pytest.fixture
def refusals() -> Refusals:
    """Return what is recorded."""
    return []


@pytest.fixture
def app(refusals: Refusals) -> FastAPI:
    """Return an application with a route that declares a need and one that does not."""
    found = FastAPI()
    found.router.route_class = GuardedRoute

    async def record(actor: Actor, action: str, target: str, detail: str) -> None:
        refusals.append((action, target))

    found.state.record_refusal = record
    add_problem_handlers(found)

    @found.api_route("/told", methods=["GET", "PUT"], openapi_extra=needs(Need(Role.EDITOR)))
    async def told(dry_run: Annotated[bool, Query(alias="dryRun")] = False) -> bool:
        return dry_run

    @found.get("/untold")
    async def untold() -> bool:
        return True

    return found


@pytest.fixture
async def viewer(app: FastAPI) -> AsyncIterator[httpx.AsyncClient]:
    """Return a client that may only look."""
    transport = httpx.ASGITransport(Introduced(app, Role.VIEWER))
    async with httpx.AsyncClient(transport=transport, base_url="http://api") as found:
        yield found


@pytest.fixture
async def editor(app: FastAPI) -> AsyncIterator[httpx.AsyncClient]:
    """Return a client that may change documents."""
    transport = httpx.ASGITransport(Introduced(app, Role.EDITOR))
    async with httpx.AsyncClient(transport=transport, base_url="http://api") as found:
        yield found


async def test_a_declared_need_is_demanded(
    viewer: httpx.AsyncClient, editor: httpx.AsyncClient, refusals: Refusals
) -> None:
    """Too small a role is 403; only refused changes are recorded."""
    assert (await viewer.get("/told")).status_code == 403
    assert refusals == []
    assert (await viewer.put("/told")).status_code == 403
    assert refusals == [("put", "/told")]
    assert (await editor.put("/told")).status_code == 200


async def test_a_route_that_declares_nothing_is_for_admins(app: FastAPI, editor: httpx.AsyncClient) -> None:
    """A forgotten declaration opens nothing."""
    assert (await editor.get("/untold")).status_code == 403
    transport = httpx.ASGITransport(Introduced(app, Role.ADMIN))
    async with httpx.AsyncClient(transport=transport, base_url="http://api") as admin:
        assert (await admin.get("/untold")).status_code == 200


@pytest.mark.parametrize(
    ("path", "status", "text"),
    [
        ("/told?dryRun=true", 200, "true"),
        ("/told?dryrun=true", 422, 'did you mean \\"dryRun\\"?'),
        ("/told?x=1", 422, "known here: dryRun"),
        ("/told?%00=1", 422, "is no parameter"),
        ("/told?dryRun=true&dryRun=false", 422, "'dryRun' is given twice"),
        ("/told?dryRun=true&dryRun=true", 422, "'dryRun' is given twice"),
    ],
)
async def test_unknown_and_doubled_parameters_are_refused(
    editor: httpx.AsyncClient, path: str, status: int, text: str
) -> None:
    """With the nearest one that is known; of two values nobody knows which one is meant."""
    answer = await editor.get(path)
    assert (answer.status_code, text in answer.text) == (status, True)
