"""The outermost layer."""

import asyncio

import pytest
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send

from control_plane.api.front import UNMATCHED, Front
from tests.unit.control_plane.api.asgi import call, headers_of, scope_of

Answered = tuple[str, str, int, float]


class Observed:
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.answers: list[Answered] = []

    def answered(self, method: str, route: str, status: int, seconds: float) -> None:
        """Keep one answer."""
        self.answers.append((method, route, status, seconds))


class Ticking:
    """A clock that goes on by one at each look."""

    def __init__(self) -> None:
        self.at = 0.0

    def __call__(self) -> float:
        """Return the time."""
        self.at += 1
        return self.at


async def inner(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer with the method that arrives; break at one path."""
    if scope["path"] == "/broken":
        raise RuntimeError
    headers = {"cache-control": "private"} if scope["path"] == "/own" else {}
    await PlainTextResponse(scope["method"], headers=headers)(scope, receive, send)


@pytest.mark.parametrize(
    ("method", "arrives", "counted"),
    [("GET", "GET", "GET"), ("HEAD", "GET", "HEAD"), ("FOO", "FOO", "other")],
)
async def test_head_is_get_without_a_body(method: str, arrives: str, counted: str) -> None:
    """The server leaves the body away; what callers invent is no label."""
    observed = Observed()
    scope = scope_of(method=method)
    sent = await call(Front(inner, observer=observed, clock=Ticking()), scope)
    assert sent[1]["body"] == arrives.encode()
    assert scope["method"] == method
    assert observed.answers == [(counted, UNMATCHED, 200, 1.0)]


async def test_every_answer_is_kept_out_of_caches() -> None:
    """Unless it says otherwise itself."""
    front = Front(inner, observer=Observed(), clock=Ticking())
    found = headers_of(await call(front, scope_of()))
    assert (found["cache-control"], found["x-content-type-options"]) == ("no-store", "nosniff")
    assert headers_of(await call(front, scope_of("/own")))["cache-control"] == "private"


async def test_what_breaks_is_counted_as_500() -> None:
    """And goes on to whoever handles it."""
    observed = Observed()
    with pytest.raises(RuntimeError):
        await call(Front(inner, observer=observed, clock=Ticking()), scope_of("/broken"))
    assert [answer[2] for answer in observed.answers] == [500]


async def test_who_is_too_slow_for_a_stop_is_told() -> None:
    """The server cancels what waits for a body; that is a 503 and no traceback in the log."""

    async def waiting(scope: Scope, receive: Receive, send: Send) -> None:
        await asyncio.Event().wait()

    observed = Observed()
    task = asyncio.create_task(call(Front(waiting, observer=observed, clock=Ticking()), scope_of()))
    await asyncio.sleep(0)
    task.cancel()
    sent = await task
    assert (sent[0]["status"], headers_of(sent)["connection"]) == (503, "close")
    assert [answer[2] for answer in observed.answers] == [503]


async def test_what_is_no_http_passes() -> None:
    """Uncounted."""
    observed, seen = Observed(), []

    async def other(scope: Scope, receive: Receive, send: Send) -> None:
        seen.append(scope["type"])

    await call(Front(other, observer=observed, clock=Ticking()), {"type": "lifespan"})
    assert (seen, observed.answers) == (["lifespan"], [])
