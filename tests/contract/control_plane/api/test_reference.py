"""The API's description of itself."""

import re
from typing import Any

import httpx
import pytest

from control_plane.api.guard import NEED_KEY


@pytest.fixture
async def described(admin: httpx.AsyncClient) -> dict[str, Any]:
    """Return the OpenAPI document."""
    found: dict[str, Any] = (await admin.get("/openapi.json")).json()
    return found


async def test_the_page_loads_nothing_from_elsewhere(admin: httpx.AsyncClient) -> None:
    """Every file that it names is served here."""
    page = await admin.get("/docs")
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    files = re.findall(r'(?:src|href)="([^"]+)"', page.text)
    assert len(files) == 4
    for file in files:
        answer = await admin.get(file)
        assert (answer.status_code, len(answer.content) > 100) == (200, True), file
    assert "SwaggerUIBundle" in (await admin.get("/docs/swagger-ui-bundle.js")).text
    assert (await admin.get("/docs/__init__.py")).status_code == 404


def test_every_operation_is_told_whole(described: dict[str, Any]) -> None:
    """A summary, what it needs, an example for each body, and each problem it may answer."""
    seen = set()
    for path, methods in described["paths"].items():
        for method, operation in methods.items():
            where = f"{method} {path}"
            assert operation["summary"], where
            assert operation["operationId"] not in seen, where
            seen.add(operation["operationId"])
            if path in ("/healthz", "/readyz"):
                assert operation["security"] == []
                continue
            assert {"401", "403", "429"} <= operation["responses"].keys(), where
            assert operation[NEED_KEY]["role"] in operation["description"], where
            bodies = operation.get("requestBody", {"content": {}})["content"]
            assert all(media["example"] for media in bodies.values()), where
            for status, answer in operation["responses"].items():
                for media_type, media in answer.get("content", {}).items():
                    good = int(status) < 400
                    assert (media_type != "application/problem+json") is good, (where, status)
                    assert not good or "example" in media or media_type == "text/plain", (where, status)


def test_every_reference_leads_somewhere(described: dict[str, Any]) -> None:
    """No schema is named that is not there."""

    def references(value: Any) -> set[str]:
        if isinstance(value, dict):
            own = {value["$ref"]} if isinstance(value.get("$ref"), str) else set()
            return own.union(*map(references, value.values()))
        return set().union(*map(references, value)) if isinstance(value, list) else set()

    schemas = described["components"]["schemas"]
    found = references(described)
    assert {name.removeprefix("#/components/schemas/") for name in found} <= schemas.keys()
    assert described["info"]["version"] == "1.2.3"
