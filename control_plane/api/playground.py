"""The playground: one prompt through a proxy, and everything that came back, with the time of each piece.

The control plane is not on the way of requests: it asks the proxy that its operator named, as an application
would, and shows it a proof that it may be told what each stage did and how long that took. What is asked and
answered is neither kept nor logged; that somebody asked is in the audit.
"""

from __future__ import annotations

import codecs
import json
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, Final, Protocol

from fastapi import FastAPI, Request
from starlette.responses import Response, StreamingResponse

from control_plane.api.bodies import Bodies
from control_plane.api.caller import actor_of
from control_plane.api.errors import RefusedRequestError
from control_plane.api.operations import (
    CHANGING,
    JSON,
    READING_A_BODY,
    Answer,
    Body,
    Operation,
    add,
    schema_ref,
)
from control_plane.api.orders import PlayOrder
from control_plane.api.ports import DocumentBook, Surroundings
from control_plane.api.wire import to_json
from control_plane.auth.roles import Need, Role
from control_plane.resources.problems import Problem
from ext_proc.contract import headers as names
from ext_proc.contract.proofs import GOOD_FOR_S, NONCE_BYTES, make_proof

EVENTS: Final = "text/event-stream"
MOST_BYTES: Final = 4 * 1024 * 1024
"""Of one answer: what comes beyond is not read."""
MOST_AT_ONCE: Final = 8
NO_PROXY: Final = (
    "no proxy is named: start the control plane with --playground-proxy http://HOST:PORT "
    "(OUTRIGGER_PLAYGROUND_PROXY), as `outrigger up` does by itself"
)
_HIDDEN: Final = frozenset({"set-cookie", names.STAGES})


class ProxyUnreachableError(Exception):
    """The proxy did not answer, or not to the end; the message says which and quotes nothing."""


@dataclass(frozen=True, slots=True)
class Answered:
    """What a proxy answers: the status, the headers by lower-case name, and the body as it comes."""

    status: int
    headers: Sequence[tuple[str, str]]
    body: AsyncIterator[bytes]


class Proxy(Protocol):
    """A proxy that requests of the playground go through."""

    @property
    def url(self) -> str:
        """Where it is, without credentials."""

    def ask(self, headers: Sequence[tuple[str, str]], body: bytes) -> AbstractAsyncContextManager[Answered]:
        """Send a chat completion."""


@dataclass(slots=True)
class PlaygroundRoutes:
    """`/api/v1/playground`. `clock` is monotonic, in seconds."""

    book: DocumentBook
    bodies: Bodies
    proxy: Proxy | None
    surroundings: Surroundings
    clock: Callable[[], float] = time.perf_counter
    playing: int = 0

    async def show(self) -> Response:
        """Answer which proxy is asked."""
        url = self.proxy.url if self.proxy else None
        return Response(to_json({"proxy": url, "hint": None if url else NO_PROXY}), media_type=JSON)

    async def play(self, request: Request) -> Response:
        """Send a prompt and answer what comes back, as it comes."""
        if self.proxy is None:
            raise RefusedRequestError(404, NO_PROXY)
        order = await self.bodies.order(request, PlayOrder)
        headers = self._headers_of(order)
        if self.playing >= MOST_AT_ONCE:
            raise RefusedRequestError(503, f"{MOST_AT_ONCE} others play already; try again in a moment")
        await self.book.record(actor_of(request), "play", f"Model/{order.model}")
        events = self._events(self.proxy, headers, to_json(order.completion()))
        return StreamingResponse(events, media_type=EVENTS, headers={"x-accel-buffering": "no"})

    def _headers_of(self, order: PlayOrder) -> list[tuple[str, str]]:
        found = [("content-type", JSON), ("accept-encoding", "identity")]
        if order.tier is not None:
            found += self._tier_headers(order.tier)
        given = ((names.SESSION, order.session), (names.CACHE, order.cache), (names.STAGES, self._proof()))
        found += [(name, value) for name, value in given if value is not None]
        if order.key is not None:
            found.append(("authorization", f"Bearer {order.key}"))
        return found

    def _proof(self) -> str | None:
        until_s = int(self.surroundings.now().timestamp()) + GOOD_FOR_S
        nonce = self.surroundings.entropy(NONCE_BYTES).hex()
        return make_proof(self.book.in_force.key_salt, until_s, nonce) or None

    def _tier_headers(self, tier: str) -> list[tuple[str, str]]:
        """Return the headers by which a caller without a Consumer belongs to `tier`."""
        spec = self.book.head.documents.tiers.get(tier)
        if spec is None:
            message = "is no Tier"
        elif spec.match is None:
            message = "has no match: its callers are Consumers, so give the key of one"
        else:
            return list(spec.match.header.items())
        raise RefusedRequestError(
            422, "the tier cannot be played; the error is in `errors`", [Problem("", "tier", message)]
        )

    async def _events(
        self, proxy: Proxy, headers: Sequence[tuple[str, str]], body: bytes
    ) -> AsyncIterator[bytes]:
        self.playing += 1
        started_s = self.clock()

        def event(name: str, **fields: Any) -> bytes:
            told = {"ms": round((self.clock() - started_s) * 1000, 2), **fields}
            return b"event: %s\ndata: %s\n\n" % (name.encode(), to_json(told))

        try:
            async with proxy.ask(headers, body) as answered:
                shown = [pair for pair in answered.headers if pair[0] not in _HIDDEN]
                yield event("head", status=answered.status, headers=shown, **_stages(answered.headers))
                decoder = codecs.getincrementaldecoder("utf-8")("replace")
                size = 0
                async for chunk in answered.body:
                    size += len(chunk)
                    if size > MOST_BYTES:
                        yield event("failed", reason=f"the answer is larger than {MOST_BYTES >> 20} MiB")
                        return
                    yield event("body", text=decoder.decode(chunk))
                yield event("end", bytes=size)
        except ProxyUnreachableError as error:
            yield event("failed", reason=str(error))
        finally:
            self.playing -= 1


def _stages(headers: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """Return what the sidecar tells of its stages; nothing when that is nothing that can be read."""
    try:
        told = json.loads(dict(headers).get(names.STAGES, "{}"))
    except ValueError:
        return {}
    if not isinstance(told, dict):
        return {}
    return {name: told[name] for name in ("stages", "upstreamMs") if name in told}


def add_playground_routes(
    app: FastAPI, book: DocumentBook, bodies: Bodies, proxy: Proxy | None, surroundings: Surroundings
) -> None:
    """Serve the playground."""
    routes = PlaygroundRoutes(book, bodies, proxy, surroundings)
    path, tag, need = "/api/v1/playground", "playground", Need(Role.EDITOR, "playground:write")
    shown = {"proxy": "http://127.0.0.1:10000", "hint": None}
    add(
        app,
        Operation(
            "GET",
            path,
            tag,
            "Read which proxy is played with",
            need,
            {200: Answer("The proxy, or what to set so that there is one.", schema_ref("Playground"), shown)},
        ),
        routes.show,
    )
    add(
        app,
        Operation(
            "POST",
            path,
            tag,
            "Play with a prompt",
            need,
            {200: Answer("Server-sent events: see above.", {"type": "string"}, SHOWN, media_type=EVENTS)},
            "One chat completion through the proxy that `--playground-proxy` names, with what it costs. "
            "Events, each with the `ms` since the request was sent: `head` (`status`, `headers`, and where "
            "the sidecar tells them `stages` and `upstreamMs`), `body` (`text`, as it came), `end` (`bytes`) "
            "or `failed` (`reason`). A stage tells its time in microseconds (`us`), what it `did` (`passed`, "
            "`forwarded`, or the reason of its answer) and what it `set`. `tier` sends the headers that the "
            "Tier's `match` asks for. Nothing of it is kept or logged; the audit has who asked which Model.",
            Body(schema_ref("PlayOrder"), {JSON: EXAMPLE}),
            (*READING_A_BODY, 404, *CHANGING),
        ),
        routes.play,
    )


EXAMPLE: Final = {"model": "gpt-4o-mini", "prompt": "Why is the sky blue?", "tier": "gold", "stream": True}
SHOWN: Final = (
    'event: head\ndata: {"ms":640.2,"status":200,"headers":[["x-outrigger-cache","miss"]],"stages":'
    '[{"stage":"cache","us":41.5,"did":"passed","set":{"cache":"miss"}}],"upstreamMs":638.9}\n\n'
    'event: body\ndata: {"ms":640.9,"text":"{\\"choices\\": []}"}\n\n'
    'event: end\ndata: {"ms":641.0,"bytes":15}\n\n'
)
