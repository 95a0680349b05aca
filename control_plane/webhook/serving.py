"""`POST /inject`: reviews over HTTP, bounded and counted. What is answered is decided by `reviews`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from prometheus_client import Counter, Histogram
from prometheus_client.registry import Collector
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from structlog.typing import FilteringBoundLogger

from control_plane.webhook.patch import Outcome
from control_plane.webhook.reviews import Answer, MalformedReviewError, review
from control_plane.webhook.settings import InjectionSettings

PATH: Final = "/inject"
MAX_BODY_BYTES: Final = 8 * 1024 * 1024
"""The API server takes objects of 3 MiB, and a review may hold two."""
BODY_WITHIN_S: Final = 10.0
BUCKETS_S: Final = (0.001, 0.0025, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 1, 5)
MALFORMED: Final = "malformed"
OTHER: Final = "not-a-new-pod"
TOLD: Final = frozenset(
    {Outcome.BAD_ANNOTATION, Outcome.NAME_IN_USE, Outcome.PORT_IN_USE, Outcome.HOST_NETWORK}
)


class _TooLargeError(Exception):
    """The body is beyond all reason."""


class Reviews:
    """The webhook as an ASGI application with its metrics.

    Args:
        settings: what pairs are made of, asked at each review.
        clock: a monotonic clock, in seconds.
        body_within_s: how long a body is waited for.
        log: where pods are told that get no pair though they ask for one.
    """

    def __init__(
        self,
        settings: Callable[[], InjectionSettings],
        *,
        clock: Callable[[], float],
        log: FilteringBoundLogger,
        body_within_s: float = BODY_WITHIN_S,
    ) -> None:
        self._body_within_s = body_within_s
        self._settings = settings
        self._clock = clock
        self._log = log
        self._results = Counter(
            "outrigger_webhook_reviews", "Reviews of pods by what came of them.", ("result",), registry=None
        )
        self._seconds = Histogram(
            "outrigger_webhook_review_seconds", "Time to answer a review.", buckets=BUCKETS_S, registry=None
        )
        for result in (*(outcome.value for outcome in Outcome), MALFORMED, OTHER):
            self._results.labels(result)
        self.application = Starlette(routes=[Route(PATH, self._inject, methods=["POST"])])

    @property
    def series(self) -> Sequence[Collector]:
        """The metrics."""
        return (self._results, self._seconds)

    async def _inject(self, request: Request) -> Response:
        began = self._clock()
        try:
            async with asyncio.timeout(self._body_within_s):
                body = await _body(request)
            answer = review(body, self._settings())
        except TimeoutError:
            return self._refused(408, "the review did not come in time")
        except _TooLargeError:
            return self._refused(413, f"the review is larger than {MAX_BODY_BYTES} bytes")
        except MalformedReviewError as error:
            return self._refused(400, str(error))
        except ClientDisconnect:
            return self._refused(400, "the review was broken off")
        # A dry run leaves no trace: nothing is made.
        if not answer.dry_run:
            self._seconds.observe(self._clock() - began)
            self._count(answer)
        return Response(answer.body, media_type="application/json")

    def _count(self, answer: Answer) -> None:
        self._results.labels(OTHER if answer.outcome is None else answer.outcome.value).inc()
        if answer.outcome in TOLD:
            self._log.warning("a pod gets no sidecar", namespace=answer.namespace, reason=answer.reason)

    def _refused(self, status: int, sentence: str) -> Response:
        self._results.labels(MALFORMED).inc()
        return PlainTextResponse(sentence + "\n", status)


async def _body(request: Request) -> bytes:
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size > MAX_BODY_BYTES:
            raise _TooLargeError
        parts.append(part)
    return b"".join(parts)
