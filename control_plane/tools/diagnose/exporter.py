"""Metrics of an application's own calls, for applications without a sidecar.

The names are the sidecar's (docs/telemetry.md), so dashboards and alerts stay the same when the sidecar
comes: `openai_request_total{status}`, and `openai_request_duration{model}` in seconds to the last byte.

    metrics = CallMetrics(registry)
    client = OpenAI(http_client=metrics.watch(DefaultHttpxClient()))

Any client with httpx' interface will do: `httpx.Client`, `httpx.AsyncClient`, and those that the `openai`
package brings. Its `send` is what everything goes through, also what fails before there is a response, of
which event hooks hear nothing.
"""

from __future__ import annotations

import inspect
import time
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, Final, TypeVar

import orjson
from prometheus_client import CollectorRegistry, Counter, Histogram

SECONDS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25, 60, 120, 300)
ABORTED: Final = "aborted"
NO_MODEL: Final = "none"
OTHER_MODEL: Final = "other"
_DONE: Final = b"[DONE]"

C = TypeVar("C")


class CallMetrics:
    """Counts the calls of the clients that it watches.

    Args:
        registry: where the two metrics are registered, once.
        most_models: names of models that become label values; further ones are `other`.
        clock: seconds that only grow.
    """

    def __init__(
        self,
        registry: CollectorRegistry,
        *,
        most_models: int = 100,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._requests = Counter(
            "openai_request", "Calls, by the HTTP status, or aborted.", ["status"], registry=registry
        )
        self._duration = Histogram(
            "openai_request_duration",
            "Seconds from a call's start to its last byte.",
            ["model"],
            registry=registry,
            buckets=SECONDS,
        )
        self._models: set[str] = set()
        self._most_models = most_models
        self._clock = clock

    def watch(self, client: C) -> C:
        """Count the calls of `client` from now on, and return it; `client` has httpx' `send`.

        `aborted` is a call that failed before an answer, or whose stream ended early; a stream that is
        neither read nor closed is not counted. Nothing of a call but its model and status is kept.
        """
        inner = client.send  # type: ignore[attr-defined]
        send = self._sent_later(inner) if inspect.iscoroutinefunction(inner) else self._sent(inner)
        client.send = send  # type: ignore[attr-defined]
        return client

    def _sent(self, inner: Callable[..., Any]) -> Callable[..., Any]:
        def send(request: Any, **options: Any) -> Any:
            call = self._begin(request)
            try:
                response = inner(request, **options)
            except BaseException:
                call.end(ABORTED)
                raise
            if options.get("stream"):
                _follow(response, call)
            else:
                call.end(str(response.status_code))
            return response

        return send

    def _sent_later(self, inner: Callable[..., Any]) -> Callable[..., Any]:
        async def send(request: Any, **options: Any) -> Any:
            call = self._begin(request)
            try:
                response = await inner(request, **options)
            except BaseException:
                call.end(ABORTED)
                raise
            if options.get("stream"):
                _follow_later(response, call)
            else:
                call.end(str(response.status_code))
            return response

        return send

    def _begin(self, request: Any) -> _Call:
        begun, name = self._clock(), self._label(model_of(request))

        def ended(status: str) -> None:
            self._requests.labels(status).inc()
            self._duration.labels(name).observe(self._clock() - begun)

        return _Call(ended)

    def _label(self, model: str) -> str:
        if model not in self._models and len(self._models) >= self._most_models:
            return OTHER_MODEL
        self._models.add(model)
        return model


def model_of(request: Any) -> str:
    """Return the model that a request of httpx names, `none` when it names none."""
    try:
        document = orjson.loads(request.content)
    except (orjson.JSONDecodeError, RuntimeError):  # no JSON; or a body that is sent as it is made
        return NO_MODEL
    model = document.get("model") if isinstance(document, dict) else None
    return model if isinstance(model, str) and model else NO_MODEL


class _Call:
    """One call that is under way; it ends once.

    `reading` is true while the reader waits for more: who closes then is httpx itself, at the end.
    """

    def __init__(self, ended: Callable[[str], None]) -> None:
        self.reading = False
        self._ended: Callable[[str], None] | None = ended
        self._tail = b""

    def see(self, piece: bytes) -> None:
        """Take a piece of the answer: after `[DONE]` a stream may be closed."""
        self.reading = False
        self._tail = (self._tail + piece)[-2 * len(_DONE) :]

    def end(self, status: str) -> None:
        """Count the call, unless it has been counted."""
        if self._ended is not None:
            self._ended(status)
            self._ended = None

    def closed(self, status: int) -> None:
        """Count the call whose response is being closed."""
        self.end(str(status) if self.reading or _DONE in self._tail else ABORTED)


def _follow(response: Any, call: _Call) -> None:
    raw, close = response.iter_raw, response.close

    def iter_raw(*arguments: Any, **named: Any) -> Iterator[bytes]:
        call.reading = True
        try:
            for piece in raw(*arguments, **named):
                call.see(piece)
                yield piece
                call.reading = True
        except GeneratorExit:  # the reader has enough; whoever closes the response says how it ended
            raise
        except BaseException:
            call.end(ABORTED)
            raise

    def closing() -> None:
        call.closed(response.status_code)
        close()

    response.iter_raw, response.close = iter_raw, closing


def _follow_later(response: Any, call: _Call) -> None:
    raw, close = response.aiter_raw, response.aclose

    async def aiter_raw(*arguments: Any, **named: Any) -> AsyncIterator[bytes]:
        call.reading = True
        try:
            async for piece in raw(*arguments, **named):
                call.see(piece)
                yield piece
                call.reading = True
        except GeneratorExit:
            raise
        except BaseException:
            call.end(ABORTED)
            raise

    async def closing() -> None:
        call.closed(response.status_code)
        await close()

    response.aiter_raw, response.aclose = aiter_raw, closing
