"""One declaration feeds routing, guard and description."""

import pytest
from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from starlette.responses import Response

from control_plane.api.guard import NEED_KEY, GuardedRoute
from control_plane.api.operations import Answer, Body, Operation, add, schema_ref
from control_plane.auth.roles import Need, Role


async def handler() -> Response:
    """Answer nothing."""
    return Response()


def test_an_operation_is_described_whole() -> None:
    """Answers, problems, headers, the body with an example for each type, and what it needs."""
    app = FastAPI()
    app.router.route_class = GuardedRoute
    operation = Operation(
        "PUT",
        "/things/{name}",
        "things",
        "Put a thing",
        Need(Role.EDITOR, "models:write"),
        {201: Answer("New.", schema_ref("Thing"), {"a": 1}, headers={"ETag": "Its tag."})},
        body=Body(schema_ref("Thing"), {"application/json": {"a": 1}}),
        problems=(404,),
        headers={"If-Match": "Its tag."},
    )
    add(app, operation, handler)
    found = get_openapi(title="t", version="v", routes=app.routes)["paths"]["/things/{name}"]["put"]
    assert found["operationId"] == "putAThing"
    assert found[NEED_KEY] == {"role": "editor", "scope": "models:write"}
    assert found["requestBody"]["content"]["application/json"]["example"] == {"a": 1}
    assert found["responses"].keys() == {"201", "401", "403", "404", "422", "429", "503"}
    assert found["responses"]["201"]["headers"]["ETag"]["description"] == "Its tag."
    assert found["responses"]["404"]["content"].keys() == {"application/problem+json"}
    assert found["parameters"][0]["name"] == "If-Match"


def test_a_problem_without_words_is_a_bug() -> None:
    """Each status that a route may answer is explained."""
    operation = Operation("GET", "/", "t", "x", Need(Role.VIEWER), {200: Answer("x")}, problems=(418,))
    with pytest.raises(KeyError):
        add(FastAPI(), operation, handler)
