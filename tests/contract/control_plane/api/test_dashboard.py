"""The dashboard's pages and files, as they are served."""

import httpx
import pytest

from control_plane.auth.roles import Role
from control_plane.dashboard.shell import PAGES, POLICY, path_of
from tests.contract.control_plane.api.served import Served


@pytest.mark.parametrize("page", [name for name, _ in PAGES])
async def test_a_page_is_the_shell(visitor: httpx.AsyncClient, page: str) -> None:
    """With a policy that allows our own files only."""
    answer = await visitor.get(path_of(page))
    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert answer.headers["content-security-policy"] == POLICY
    assert answer.headers["cache-control"] == "no-store"
    assert f"/assets/pages/{page}.js" in answer.text


async def test_the_shell_says_who_looks(lasting: Served) -> None:
    """Scripts leave away what the role does not allow."""
    async with lasting.client() as admin:
        order = {"role": Role.VIEWER, "scopes": ["cache:read"]}
        token = (await admin.post("/api/v1/tokens", json=order)).json()["token"]
    async with lasting.client(token) as client:
        text = (await client.get("/cache")).text
    assert '<meta name="role" content="viewer">' in text
    assert '<meta name="scopes" content="cache:read">' in text


async def test_a_file_is_sent_once(visitor: httpx.AsyncClient) -> None:
    """A browser that has it is told so."""
    first = await visitor.get("/assets/pages/overview.js")
    assert first.headers["content-type"].startswith("text/javascript")
    again = await visitor.get("/assets/pages/overview.js", headers={"if-none-match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    assert "no-cache" in again.headers["cache-control"]


@pytest.mark.parametrize("path", ["nothing.js", "../assets.py", "%2e%2e/assets.py", "pages/README.md", ""])
async def test_only_the_files_are_served(visitor: httpx.AsyncClient, path: str) -> None:
    """Whatever path is asked for."""
    assert (await visitor.get(f"/assets/{path}")).status_code == 404


async def test_a_stranger_sees_no_file(lasting: Served) -> None:
    """They are behind the door as all is."""
    async with lasting.client(None) as client:
        assert (await client.get("/assets/app.js")).status_code == 401
