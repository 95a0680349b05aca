"""The OpenAPI document."""

from fastapi import FastAPI
from starlette.responses import Response

from control_plane.api.guard import NEED_KEY, GuardedRoute
from control_plane.api.openapi import describer
from control_plane.api.operations import Answer, Operation, add
from control_plane.auth.roles import Need, Role


async def handler() -> Response:
    """Answer nothing."""
    return Response()


def test_open_operations_are_told_apart() -> None:
    """Health needs nothing and refuses nobody; everything else says what it needs, in words too."""
    app = FastAPI(title="Outrigger", version="1.2.3")
    app.router.route_class = GuardedRoute
    for path, summary in (("/healthz", "health"), ("/things", "things")):
        need = Need(Role.VIEWER, "models:read")
        add(app, Operation("GET", path, "t", summary, need, {200: Answer("x")}), handler)
    describe = describer(app)
    found = describe()
    health, things = found["paths"]["/healthz"]["get"], found["paths"]["/things"]["get"]
    assert (health["security"], health["responses"].keys()) == ([], {"200", "503"})
    assert NEED_KEY not in health
    assert things["security"] == [{"token": []}, {"session": []}]
    assert things["description"].endswith("Needs: role `viewer`, scope `models:read`.")
    assert set(found["components"]["securitySchemes"]) == {"token", "session"}
    assert describe() is found
