"""Reviews over HTTP, in process. Over TLS they are tested end to end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx
import orjson
import pytest
import structlog
from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs

from control_plane.webhook.serving import MAX_BODY_BYTES, Reviews
from tests.unit.control_plane.webhook.pods import SETTINGS, pod
from tests.unit.control_plane.webhook.test_reviews import asked


class Served:
    """The webhook with a client and its metrics."""

    def __init__(self) -> None:
        reviews = Reviews(lambda: SETTINGS, clock=lambda: 0.0, log=structlog.get_logger(), body_within_s=0.2)
        self.registry = CollectorRegistry(auto_describe=False)
        for collector in reviews.series:
            self.registry.register(collector)
        transport = httpx.ASGITransport(reviews.application)
        self.client = httpx.AsyncClient(transport=transport, base_url="https://webhook")

    def counted(self, result: str) -> float:
        """Return how many reviews came to `result`."""
        return self.registry.get_sample_value("outrigger_webhook_reviews_total", {"result": result}) or 0.0

    @property
    def measured(self) -> float:
        """How many reviews were measured."""
        return self.registry.get_sample_value("outrigger_webhook_review_seconds_count") or 0.0


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    """Serve the webhook."""
    made = Served()
    yield made
    await made.client.aclose()


@pytest.mark.parametrize(
    ("review", "result"),
    [
        (asked(pod()), "injected"),
        (asked(pod({"hostNetwork": True})), "host-network"),
        (asked(pod(), operation="UPDATE"), "not-a-new-pod"),
    ],
)
async def test_a_review_is_answered_and_counted(served: Served, review: Any, result: str) -> None:
    """Under what came of it."""
    answer = await served.client.post("/inject?timeout=5s", content=orjson.dumps(review))
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/json"
    assert answer.json()["response"]["allowed"] is True
    assert (served.counted(result), served.measured) == (1.0, 1.0)


async def test_a_dry_run_leaves_no_trace(served: Served) -> None:
    """Answered alike, counted and logged not at all."""
    review = orjson.dumps(asked(pod({"hostNetwork": True}), dryRun=True))
    with capture_logs() as logs:
        answer = await served.client.post("/inject", content=review)
    assert answer.json()["response"]["warnings"]
    assert (served.counted("host-network"), served.measured, logs) == (0.0, 0.0, [])


@pytest.mark.parametrize("body", [b"", b"{", b"{}", b"[]"])
async def test_a_malformed_review_is_400(served: Served, body: bytes) -> None:
    """With one sentence, and counted as such."""
    answer = await served.client.post("/inject", content=body)
    assert (answer.status_code, answer.text.count("\n")) == (400, 1)
    assert served.counted("malformed") == 1.0


async def test_a_body_beyond_reason_is_413(served: Served) -> None:
    """It is not kept to its end."""
    answer = await served.client.post("/inject", content=b" " * (MAX_BODY_BYTES + 1))
    assert answer.status_code == 413


async def test_a_body_that_does_not_come_is_408(served: Served) -> None:
    """Nobody holds a connection open for ever."""

    async def stalled() -> AsyncIterator[bytes]:
        yield b"{"
        await asyncio.sleep(60)

    answer = await served.client.post("/inject", content=stalled())
    assert (answer.status_code, served.counted("malformed")) == (408, 1.0)


@pytest.mark.parametrize(("method", "path", "status"), [("GET", "/inject", 405), ("POST", "/", 404)])
async def test_nothing_else_is_there(served: Served, method: str, path: str, status: int) -> None:
    """One path, one method."""
    assert (await served.client.request(method, path)).status_code == status


async def test_a_pod_that_asks_and_gets_no_pair_is_logged(served: Served) -> None:
    """With its namespace and the reason, for whoever looks for it."""
    with capture_logs() as logs:
        await served.client.post("/inject", content=orjson.dumps(asked(pod({"hostNetwork": True}))))
    assert (logs[0]["namespace"], logs[0]["log_level"]) == ("shop", "warning")
