"""Vectors that a provider makes: an embeddings Model of the snapshot, called as any other, through Envoy.

See https://platform.openai.com/docs/api-reference/embeddings.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Final

import orjson

from ext_proc.continuation import Caller, CallFailed
from ext_proc.contract.headers import CREDENTIALS
from ext_proc.contract.routes import CallShape
from ext_proc.contract.snapshot import Backend, Model, Version
from ext_proc.exchange import Exchange, Forward, RequestHead
from ext_proc.semantic.embedding import EmbeddingFailed, Vectors
from ext_proc.stages.route import azure_path
from ext_proc.stores.breaker import Breaker

PATH: Final = "/v1/embeddings"
MAX_BYTES: Final = 4 * 1024 * 1024


def model_of(exchange: Exchange, name: str) -> tuple[Model, Version, Backend] | None:
    """Return the Model of that name or alias, its version of the largest weight, and its Backend."""
    snapshot = exchange.loaded.snapshot
    model = snapshot.models.get(snapshot.aliases.get(name, name))
    if model is None or not model.versions:
        return None
    # One and the same for all: vectors of different versions cannot be compared.
    version = max(model.versions, key=lambda one: one.weight)
    backend = snapshot.backends.get(version.backend)
    return None if backend is None else (model, version, backend)


class ModelEmbedder:
    """Has the vectors made for one exchange.

    Args:
        exchange: whose texts they are; it is called in its name.
        found: what `model_of` returned.
        caller: who makes the call.
        breaker: of this Model, for all exchanges.
        clock: a monotonic time in seconds.
        deadline_s: how long a call may take.
    """

    def __init__(
        self,
        exchange: Exchange,
        found: tuple[Model, Version, Backend],
        caller: Caller,
        breaker: Breaker,
        *,
        clock: Callable[[], float],
        deadline_s: float,
    ) -> None:
        self._exchange = exchange
        self._model, self._version, self._backend = found
        self._caller = caller
        self._breaker = breaker
        self._clock = clock
        self._deadline_s = deadline_s
        self.name = embedder_name(found)

    async def embed(self, texts: Sequence[str]) -> Vectors:
        """Return one row of unit length for each text.

        Raises:
            EmbeddingFailed: the provider failed or is late, or was so lately that it is not asked.
        """
        if not self._breaker.allows(self._clock()):
            raise EmbeddingFailed("the embeddings failed a moment ago")
        try:
            async with asyncio.timeout(self._deadline_s):
                vectors = await self._asked(texts)
        except (CallFailed, EmbeddingFailed, TimeoutError) as error:
            self._breaker.failed(self._clock())
            raise EmbeddingFailed(str(error) or "the embeddings are late") from error
        except BaseException:
            self._breaker.gave_up()
            raise
        self._breaker.succeeded()
        return vectors

    async def _asked(self, texts: Sequence[str]) -> Vectors:
        loaded, backend = self._exchange.loaded, self._backend
        body = orjson.dumps({"model": self._version.upstream_model, "input": list(texts)})
        path = None
        if backend.protocol == "azure-openai":
            path = azure_path(backend, PATH, "", self._version.upstream_model)
        policy = loaded.policy(self._model.name, self._exchange.tier)
        forward = Forward(loaded.route(backend, policy, CallShape.JSON), path=path, body=body)
        head = RequestHead("POST", PATH, "", {"content-type": "application/json", **self._own_key()})
        answer = bytearray()
        async with self._caller.call(head, forward, body) as reply:
            if reply.status != 200:
                raise EmbeddingFailed(f"the provider of embeddings answers {reply.status}")
            async for part in reply.parts():
                answer += part
                if len(answer) > MAX_BYTES:
                    raise EmbeddingFailed("the embeddings are longer than what may be held")
        return await asyncio.to_thread(unit_vectors, bytes(answer), len(texts))

    def _own_key(self) -> dict[str, str]:
        """Return the caller's own key where the same provider answers its questions; no other may see it."""
        exchange = self._exchange
        if exchange.consumer is not None or exchange.backend != self._backend:
            return {}
        sent = exchange.head.headers
        return {name: sent[name] for name in CREDENTIALS if name in sent}


def embedder_name(found: tuple[Model, Version, Backend]) -> str:
    """Return what tells this Model's vectors from others."""
    model, version, backend = found
    return f"model:{model.name}\0{version.name}\0{version.upstream_model}\0{backend.url}"


def unit_vectors(answer: bytes, count: int) -> Vectors:
    """Read `count` vectors out of an answer of the embeddings API, made as long as 1.

    Raises:
        EmbeddingFailed: it is none, or lacks one.
    """
    try:
        import numpy  # noqa: PLC0415 - only those pay for it who want it
    except ImportError:
        raise EmbeddingFailed("numpy is not installed") from None
    try:
        data: list[Any] = sorted(orjson.loads(answer)["data"], key=lambda item: item["index"])
        vectors: Vectors = numpy.array([item["embedding"] for item in data], dtype=numpy.float32)
    except (ValueError, KeyError, TypeError, OverflowError):
        raise EmbeddingFailed("the answer holds no embeddings") from None
    if vectors.ndim != 2 or vectors.shape[0] != count or not vectors.shape[1]:
        raise EmbeddingFailed("the answer does not hold the embeddings that were asked for")
    lengths = numpy.linalg.norm(vectors, axis=1, keepdims=True)
    if not numpy.isfinite(lengths).all() or not lengths.all():
        raise EmbeddingFailed("an embedding has no direction")
    unit: Vectors = vectors / lengths
    return unit
