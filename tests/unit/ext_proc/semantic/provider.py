"""A provider of embeddings for tests, in the place of the processor's way to providers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager

import orjson

from ext_proc.continuation import CallFailed
from ext_proc.exchange import Forward, RequestHead


class Told:
    """One answer."""

    def __init__(self, status: int, body: bytes) -> None:
        self.status = status
        self.headers: Mapping[str, str] = {"content-type": "application/json"}
        self.raw: Sequence[tuple[bytes, bytes]] = ()
        self._body = body

    async def parts(self) -> AsyncIterator[bytes]:
        """Yield the body in two parts."""
        half = len(self._body) // 2
        yield self._body[:half]
        yield self._body[half:]


class EmbeddingsProvider:
    """Answers each text with the vector (3, 4), or as it is told to; writes every call down."""

    def __init__(self) -> None:
        self.calls: list[tuple[RequestHead, Forward]] = []
        self.status = 200
        self.body: bytes | None = None
        self.refuses = False
        self.hangs = False

    @asynccontextmanager
    async def call(self, head: RequestHead, forward: Forward, body: bytes) -> AsyncIterator[Told]:
        """Answer."""
        self.calls.append((head, forward))
        if self.refuses:
            raise CallFailed("no connection")
        if self.hangs:
            await asyncio.Event().wait()
        texts = orjson.loads(body)["input"]
        data = [{"index": place, "embedding": [3.0, 4.0]} for place in range(len(texts))]
        yield Told(self.status, orjson.dumps({"data": data}) if self.body is None else self.body)
