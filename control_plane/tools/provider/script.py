"""Scripted behaviours: what the next requests get instead of an answer of the model.

`POST /_provider/script` takes a list of them (`GET` answers its JSON schema). They are used up in order: a
request takes the first one that matches it and has times left.
"""

from __future__ import annotations

import base64
import gzip
from typing import Annotated, Any, Literal, Self

import orjson
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, TypeAdapter, model_validator

from control_plane.tools.provider.wire.messages import Headers, Request

FOREVER = 0


def _as_pairs(value: object) -> object:
    """Accept headers as an object or as a list of pairs, which can repeat a name."""
    return list(value.items()) if isinstance(value, dict) else value


Pairs = Annotated[tuple[tuple[str, str], ...], BeforeValidator(_as_pairs)]


class Match(BaseModel):
    """Which requests a behaviour is for; what is left out matches anything."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    path: str | None = None
    model: str | None = None
    method: str | None = None


class Behaviour(BaseModel):
    """One scripted answer.

    The body is one of `body` (text as it is, any other value as JSON), `body_base64`, `chunks` or
    `chunks_base64` (each written on its own, `chunk_delay_ms` before each but the first); a chunked one has
    no content-length. `raw_base64` replaces the whole HTTP/1.1 answer, status line and all, and closes.
    `generate` lets the model answer after `delay_ms`, with `headers` added. `hang` never answers.
    `close` is where the provider breaks off: `before-headers`, `mid-stream` (after the body that is given,
    without its end) or `reset` (the same, by a TCP reset; with nothing to send, before the headers). On
    HTTP/2 the first two reset the stream, the third the connection. `times` is how many requests get it, 0
    is all. `gzip` codes the body and says so.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    match: Match = Match()
    times: int = Field(default=1, ge=0)
    status: int = Field(default=200, ge=200, le=599)
    headers: Pairs = ()
    body: Any = None
    body_base64: str | None = None
    chunks: tuple[str, ...] = ()
    chunks_base64: tuple[str, ...] = ()
    raw_base64: str | None = None
    trailers: Pairs = ()
    gzip: bool = False
    delay_ms: float = Field(default=0, ge=0)
    chunk_delay_ms: float = Field(default=0, ge=0)
    close: Literal["before-headers", "mid-stream", "reset"] | None = None
    generate: bool = False
    hang: bool = False

    @model_validator(mode="after")
    def _one_body(self) -> Self:
        given = [
            name
            for name in ("body", "body_base64", "chunks", "chunks_base64", "raw_base64")
            if getattr(self, name) not in (None, ())
        ]
        if len(given) > 1:
            raise ValueError(f"give one of {' and '.join(given)}, not both")
        for text in (self.body_base64, self.raw_base64, *self.chunks_base64):
            if text is not None:
                base64.b64decode(text, validate=True)
        return self

    @property
    def chunked(self) -> bool:
        """Whether the body goes out in pieces, without a content-length."""
        return bool(self.chunks or self.chunks_base64 or self.trailers) or self.close == "mid-stream"

    @property
    def silent(self) -> bool:
        """Whether the connection breaks before anything of the answer is sent."""
        return self.close == "before-headers" or (self.close == "reset" and not any(self.pieces()))

    @property
    def raw(self) -> bytes | None:
        """The whole HTTP/1.1 answer as bytes, if it is given so."""
        return None if self.raw_base64 is None else base64.b64decode(self.raw_base64)

    def pieces(self) -> list[bytes]:
        """Return the body as it is to be written, piece by piece."""
        if self.chunks or self.chunks_base64:
            found = [chunk.encode() for chunk in self.chunks]
            found += [base64.b64decode(chunk) for chunk in self.chunks_base64]
        elif self.body_base64 is not None:
            found = [base64.b64decode(self.body_base64)]
        elif self.body is None:
            return [b""]
        else:
            found = [self.body.encode() if isinstance(self.body, str) else orjson.dumps(self.body)]
        if not self.gzip:
            return found
        whole = gzip.compress(b"".join(found), mtime=0)
        return [whole] if len(found) == 1 else [whole[:10], whole[10:]]

    def all_headers(self) -> Headers:
        """Return the headers with a content-type where none is given, and the coding."""
        found = list(self.headers)
        if self.gzip:
            found.append(("content-encoding", "gzip"))
        if not any(name.lower() == "content-type" for name, _ in found):
            text = isinstance(self.body, str) or bool(self.chunks or self.chunks_base64)
            kind = "text/event-stream" if text and self.chunked else "application/json"
            found.insert(0, ("content-type", kind))
        return tuple(found)


BEHAVIOURS: TypeAdapter[list[Behaviour]] = TypeAdapter(list[Behaviour])


class Script:
    """The behaviours still to be played."""

    def __init__(self) -> None:
        self._left: list[tuple[Behaviour, int]] = []

    def __len__(self) -> int:
        return len(self._left)

    def add(self, behaviours: list[Behaviour]) -> None:
        """Put `behaviours` behind those that wait."""
        self._left += [(behaviour, behaviour.times) for behaviour in behaviours]

    def clear(self) -> None:
        """Forget all behaviours."""
        self._left.clear()

    def take(self, request: Request, model: str | None) -> Behaviour | None:
        """Return the behaviour for this request, used up by one, or None."""
        for place, (behaviour, times) in enumerate(self._left):
            if not _matches(behaviour.match, request, model):
                continue
            if times == 1:
                del self._left[place]
            elif times != FOREVER:
                self._left[place] = (behaviour, times - 1)
            return behaviour
        return None


def _matches(match: Match, request: Request, model: str | None) -> bool:
    return (
        match.path in (None, request.path)
        and match.method in (None, request.method)
        and match.model in (None, model)
    )
