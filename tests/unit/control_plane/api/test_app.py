"""The HTTP API, called in-process."""

from collections.abc import AsyncIterator

import httpx
import pytest

from control_plane.api.app import PROBLEM, create_app
from control_plane.push.fleet import Fleet
from control_plane.push.sidecars import Identity
from tests.unit.control_plane.push.scenes import policy, resting_fleet


@pytest.fixture
def fleet() -> Fleet:
    """Return a fleet with an empty policy in force."""
    found = resting_fleet()
    found.publish(policy(1))
    return found


@pytest.fixture
async def client(fleet: Fleet) -> AsyncIterator[httpx.AsyncClient]:
    """Return a client of an API that needs one sidecar to be ready."""
    app = create_app(fleet, version="1.2.3", min_ready_sidecars=1)

    @app.get("/broken")
    async def broken() -> None:
        raise RuntimeError("secret detail")

    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://api") as found:
        yield found


async def test_health_does_not_wait_for_sidecars(client: httpx.AsyncClient) -> None:
    """The process answers, and that is all it says."""
    answer = await client.get("/healthz")
    assert (answer.status_code, answer.json()) == (200, {"status": "ok"})


async def test_readiness_follows_the_sidecars(client: httpx.AsyncClient, fleet: Fleet) -> None:
    """503 with a reason until one serves the current snapshot, then 200."""
    answer = await client.get("/readyz")
    assert answer.status_code == 503
    assert answer.json() == {"status": "not ready", "sidecars": 0, "reason": "0 of 1 sidecars connected"}
    sidecar = fleet.connect(Identity("a", "default"), lambda: None)
    assert fleet.next_message(sidecar) is not None
    fleet.acknowledge(sidecar, sidecar.pushed)
    answer = await client.get("/readyz")
    assert (answer.status_code, answer.json()) == (200, {"status": "ready", "sidecars": 1})


@pytest.mark.parametrize(
    ("method", "path", "status", "title"),
    [
        ("GET", "/nowhere", 404, "Not Found"),
        ("POST", "/healthz", 405, "Method Not Allowed"),
        ("GET", "/broken", 500, "Internal Server Error"),
    ],
)
async def test_errors_are_problem_details(
    client: httpx.AsyncClient, method: str, path: str, status: int, title: str
) -> None:
    """One shape for all of them, and nothing of our inside in it."""
    answer = await client.request(method, path)
    assert answer.status_code == status
    assert answer.headers["content-type"] == PROBLEM
    body = answer.json()
    assert (body["title"], body["status"], body["errors"]) == (title, status, [])
    assert "secret" not in answer.text


async def test_a_wrong_method_names_the_right_ones(client: httpx.AsyncClient) -> None:
    """RFC 9110 asks for Allow on a 405."""
    assert (await client.post("/healthz")).headers["allow"] == "GET"


async def test_the_api_describes_itself(client: httpx.AsyncClient) -> None:
    """The OpenAPI document carries the software's version."""
    assert (await client.get("/openapi.json")).json()["info"]["version"] == "1.2.3"
