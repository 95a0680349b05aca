"""Browsers: logging in, changing something, logging out, and what other sites cannot do."""

import re
from collections.abc import AsyncIterator

import httpx
import pytest

from control_plane.api.door import CSRF_HEADER
from control_plane.api.session_cookie import COOKIE
from control_plane.auth.roles import Role
from tests.contract.control_plane.api.papers import backend
from tests.contract.control_plane.api.served import ADMIN, Served

HTML = {"accept": "text/html,application/xhtml+xml"}


@pytest.fixture
async def browser(served: Served) -> AsyncIterator[httpx.AsyncClient]:
    """Return a client that keeps cookies and asks for HTML."""
    async with served.client(None) as client:
        client.headers.update(HTML)
        yield client


@pytest.fixture
async def guest(lasting: Served) -> AsyncIterator[httpx.AsyncClient]:
    """Return a client that does so of the API that tests share."""
    async with lasting.client(None) as client:
        client.headers.update(HTML)
        yield client


async def log_in(browser: httpx.AsyncClient, token: str = ADMIN, target: str = "/") -> httpx.Response:
    """Submit the form."""
    return await browser.post("/login", data={"token": token, "next": target})


async def csrf_of(browser: httpx.AsyncClient) -> str:
    """Return the session's token as a page holds it."""
    found = re.search(r'name="csrf-token" content="([0-9a-f]+)"', (await browser.get("/docs")).text)
    assert found is not None
    return found[1]


@pytest.mark.parametrize("path", ["/", "/docs", "/api/v1/models", "/nowhere"])
async def test_a_stranger_gets_the_form(guest: httpx.AsyncClient, path: str) -> None:
    """With 401, for whatever page; a change gets a problem all the same."""
    answer = await guest.get(path)
    assert (answer.status_code, answer.headers["content-type"]) == (401, "text/html; charset=utf-8")
    assert 'name="token"' in answer.text
    assert answer.headers["www-authenticate"] == "Bearer"
    assert (await guest.put("/api/v1/backends/x", json={})).headers["content-type"] == (
        "application/problem+json"
    )


@pytest.mark.parametrize(
    ("query", "target"),
    [("", "/"), ("?next=/releases", "/releases"), ("?next=https://elsewhere.example/", "/")],
)
async def test_the_form_may_be_asked_for_with_where_to_go_next(
    guest: httpx.AsyncClient, query: str, target: str
) -> None:
    """Nowhere but here."""
    answer = await guest.get(f"/login{query}")
    assert answer.status_code == 200
    assert f'name="next" value="{target}"' in answer.text


async def test_a_login_leads_where_the_browser_wanted_to_go(browser: httpx.AsyncClient) -> None:
    """And the session's cookie is out of reach of scripts and other sites."""
    assert 'name="next" value="/docs"' in (await browser.get("/docs")).text
    answer = await log_in(browser, target="/docs")
    assert (answer.status_code, answer.headers["location"]) == (303, "/docs")
    cookie = answer.headers["set-cookie"].lower()
    assert cookie.startswith(COOKIE)
    for part in ("httponly", "samesite=strict", "path=/"):
        assert part in cookie
    assert "secure" not in cookie
    assert ADMIN not in cookie
    page = await browser.get("/")
    assert page.status_code == 200
    assert "admin" in page.text


async def test_elsewhere_than_on_loopback_the_cookie_is_for_https_only(browser: httpx.AsyncClient) -> None:
    """As behind a proxy that ends TLS; over plain HTTP the form says why a login would not last."""
    browser.headers["host"] = "mesh.example"
    assert "Secure" in (await log_in(browser)).headers["set-cookie"]
    browser.cookies.clear()
    assert "HTTPS" in (await browser.get("/login")).text
    assert "HTTPS" not in (await browser.get("/login", headers={"x-forwarded-proto": "https"})).text


@pytest.mark.parametrize(
    "target",
    [
        "https://evil.example",
        "//evil.example",
        "/\\evil.example",
        "/docs?x=1",
        "javascript:alert(1)",
        '"><script>',
        "",
    ],
)
async def test_a_login_leads_nowhere_else(browser: httpx.AsyncClient, target: str) -> None:
    """What is no plain path here becomes `/`, in the form too."""
    assert (await log_in(browser, target=target)).headers["location"] == "/"
    page = await browser.get("/login", params={"next": target})
    assert "evil" not in page.text
    assert "<script>" not in page.text


async def test_a_wrong_token_gets_the_form_again(served: Served, browser: httpx.AsyncClient) -> None:
    """Without a cookie and without the token; a sidecar's opens nothing."""
    answer = await log_in(browser, "<b>wrong</b>")
    assert answer.status_code == 401
    assert "not valid" in answer.text
    assert "wrong" not in answer.text.replace("not valid", "")
    assert "set-cookie" not in answer.headers
    assert (await log_in(browser, await served.token(Role.SIDECAR))).status_code == 403
    assert (await browser.get("/")).status_code == 401


async def test_a_change_repeats_the_sessions_token(browser: httpx.AsyncClient) -> None:
    """Reading does not; without it, or with another's, a change is 403."""
    await log_in(browser)
    csrf = await csrf_of(browser)
    assert (await browser.get("/api/v1/backends")).status_code == 200
    for headers in ({}, {CSRF_HEADER: "0" * 64}):
        answer = await browser.put("/api/v1/backends/openai", json=backend(), headers=headers)
        assert (answer.status_code, CSRF_HEADER in answer.text) == (403, True)
    answer = await browser.put("/api/v1/backends/openai", json=backend(), headers={CSRF_HEADER: csrf})
    assert answer.status_code == 201


async def test_logging_out_ends_the_session(browser: httpx.AsyncClient) -> None:
    """Only by the page's own form; the old cookie is worth nothing afterwards."""
    await log_in(browser)
    cookie = browser.cookies[COOKIE]
    assert (await browser.post("/logout", data={"csrf": "x"})).status_code == 403
    answer = await browser.post("/logout", data={"csrf": await csrf_of(browser)})
    assert (answer.status_code, answer.headers["location"]) == (303, "/login")
    assert (await browser.get("/", headers={"cookie": f"{COOKIE}={cookie}"})).status_code == 401


async def test_a_session_ends_with_its_token(
    served: Served, admin: httpx.AsyncClient, browser: httpx.AsyncClient
) -> None:
    """Revoked, the browser sees the form again."""
    made = (await admin.post("/api/v1/tokens", json={"role": "viewer"})).json()
    await log_in(browser, made["token"])
    assert (await browser.get("/")).status_code == 200
    await admin.delete(f"/api/v1/tokens/{made['id']}")
    assert (await browser.get("/")).status_code == 401


async def test_a_session_has_its_tokens_role(served: Served, browser: httpx.AsyncClient) -> None:
    """A viewer's browser changes nothing."""
    await log_in(browser, await served.token(Role.VIEWER))
    headers = {CSRF_HEADER: await csrf_of(browser)}
    answer = await browser.put("/api/v1/backends/openai", json=backend(), headers=headers)
    assert "needs the role editor" in answer.text


async def test_another_site_logs_nobody_in(browser: httpx.AsyncClient) -> None:
    """Else a victim could work in the attacker's session."""
    answer = await browser.post("/login", data={"token": ADMIN}, headers={"sec-fetch-site": "cross-site"})
    assert answer.status_code == 403


@pytest.mark.parametrize("path", ["/", "/docs", "/login"])
async def test_pages_run_nothing_of_others(guest: httpx.AsyncClient, path: str) -> None:
    """A policy that allows our own files only, and nobody's frame."""
    await log_in(guest)
    answer = await guest.get(path)
    policy = answer.headers["content-security-policy"]
    assert policy.startswith("default-src 'none';")
    assert "frame-ancestors 'none'" in policy
    assert "unsafe-eval" not in policy
    assert "script-src 'unsafe-inline'" not in policy
    assert answer.headers["cache-control"] == "no-store"
    assert not re.search(r'(?:src|href|action)="(?![/#])', answer.text)


@pytest.mark.parametrize(
    ("content", "media_type", "status"),
    [
        (b"x" * 70_000, "application/x-www-form-urlencoded", 413),
        (b"a=1&" * 100, "application/x-www-form-urlencoded", 400),
        (b"\xff\xfe", "application/x-www-form-urlencoded", 401),
        (b"{}", "application/json", 415),
    ],
)
async def test_strange_forms_are_refused(
    guest: httpx.AsyncClient, content: bytes, media_type: str, status: int
) -> None:
    """Too large, too many fields, no UTF-8, no form."""
    answer = await guest.post("/login", content=content, headers={"content-type": media_type})
    assert answer.status_code == status
