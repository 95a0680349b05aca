"""An embeddings Model of the snapshot is called as any other."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import orjson
import pytest

from ext_proc.contract.snapshot import Backend, Consumer, Model, Version
from ext_proc.exchange import Exchange
from ext_proc.semantic.embedding import EmbeddingFailed
from ext_proc.semantic.model import ModelEmbedder, model_of, unit_vectors
from ext_proc.stores.breaker import Breaker
from tests.unit.ext_proc.exchanges import exchange, snapshot
from tests.unit.ext_proc.semantic.provider import EmbeddingsProvider

CHAT_BACKEND = Backend("b", "http://127.0.0.1:1/v1")
OTHER = Backend("e", "http://127.0.0.1:2/v1")
AZURE = Backend("z", "https://x.openai.azure.com", protocol="azure-openai", api_version="2024-10-21")
SMALL = Version("small", "e", "text-embedding-3-small", weight=90)
LARGE = Version("large", "b", "text-embedding-3-large", weight=10)


def asked(*versions: Version, headers: dict[str, str] | None = None) -> Exchange:
    """Return an exchange of a snapshot with the Model `vectors` (alias `v`)."""
    models = {
        "m": Model("m", (Version("v1", "b", "m"),)),
        "vectors": Model("vectors", versions or (LARGE, SMALL)),
    }
    policy = snapshot(
        models=models, aliases={"v": "vectors"}, backends={"b": CHAT_BACKEND, "e": OTHER, "z": AZURE}
    )
    one = exchange(policy, headers=headers)
    one.backend = CHAT_BACKEND
    return one


def embedder(
    one: Exchange, provider: EmbeddingsProvider, breaker: Breaker | None = None, **options: Any
) -> ModelEmbedder:
    """Return the embedder of `vectors` for the exchange."""
    found = model_of(one, "vectors")
    assert found is not None
    settings = {"clock": lambda: 100.0, "deadline_s": 5.0, **options}
    return ModelEmbedder(one, found, provider, breaker or Breaker(), **settings)


def test_the_version_of_the_largest_weight_makes_all_vectors() -> None:
    """Those of two could not be compared; an alias means the same."""
    one = asked()
    found = model_of(one, "vectors")
    assert found is not None
    assert found[1:] == (SMALL, OTHER)
    assert model_of(one, "v") == found
    assert model_of(one, "nobody") is None


async def test_vectors_are_asked_for_as_the_api_says() -> None:
    """By the route of the Model's Backend, and are made as long as 1."""
    one, provider = asked(), EmbeddingsProvider()
    vectors = await embedder(one, provider).embed(["a", "b"])
    assert vectors == pytest.approx(np.array([[0.6, 0.8], [0.6, 0.8]]))
    (head, forward), *_ = provider.calls
    assert (head.method, head.path, forward.path) == ("POST", "/v1/embeddings", None)
    assert forward.route.startswith("e.")
    assert orjson.loads(forward.body or b"") == {"model": "text-embedding-3-small", "input": ["a", "b"]}


async def test_azure_has_its_own_path() -> None:
    """The deployment is in it."""
    provider = EmbeddingsProvider()
    await embedder(asked(Version("a", "z", "ada")), provider).embed(["a"])
    path = provider.calls[0][1].path or ""
    assert path.startswith("/openai/deployments/ada/embeddings?api-version=2024-10-21")


@pytest.mark.parametrize(
    ("version", "consumer", "sent"),
    [(LARGE, None, "Bearer sk-own"), (SMALL, None, None), (LARGE, Consumer("c", "t"), None)],
    ids=["same provider", "another provider", "a Consumer's key"],
)
async def test_a_callers_key_is_for_its_own_provider(
    version: Version, consumer: Consumer | None, sent: str | None
) -> None:
    """No other one sees it, and a Consumer's nobody."""
    one, provider = asked(version, headers={"authorization": "Bearer sk-own"}), EmbeddingsProvider()
    one.consumer = consumer
    await embedder(one, provider).embed(["a"])
    assert provider.calls[0][0].headers.get("authorization") == sent


@pytest.mark.parametrize(
    "trouble",
    [
        {"status": 500},
        {"refuses": True},
        {"hangs": True},
        {"body": b"nonsense"},
        {"body": b'{"data": []}'},
    ],
    ids=str,
)
async def test_trouble_is_no_vectors_and_is_left_alone_for_a_while(trouble: dict[str, Any]) -> None:
    """The next question does not wait for it."""
    one, provider, breaker = asked(), EmbeddingsProvider(), Breaker()
    for name, value in trouble.items():
        setattr(provider, name, value)
    for _ in range(2):
        with pytest.raises(EmbeddingFailed):
            await embedder(one, provider, breaker, deadline_s=0.02).embed(["a"])
    assert len(provider.calls) == 1
    healthy = EmbeddingsProvider()
    await embedder(one, healthy, breaker, clock=lambda: 200.0).embed(["a"])
    assert not breaker.is_open


async def test_a_caller_that_leaves_is_no_trouble() -> None:
    """The provider did nothing wrong."""
    one, provider, breaker = asked(), EmbeddingsProvider(), Breaker()
    provider.hangs = True
    task = asyncio.create_task(embedder(one, provider, breaker).embed(["a"]))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not breaker.is_open


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"[]",
        b'{"data": 1}',
        b'{"data": [{"index": 0, "embedding": [1, 2]}]}',
        b'{"data": [{"index": 0, "embedding": [1]}, {"index": 1, "embedding": [1, 2]}]}',
        b'{"data": [{"index": 0, "embedding": [0]}, {"index": 1, "embedding": [1]}]}',
        b'{"data": [{"index": 0, "embedding": []}, {"index": 1, "embedding": []}]}',
        b'{"data": [{"index": 0, "embedding": "AAAA"}, {"index": 1, "embedding": "AAAA"}]}',
        b'{"data": [{"index": 0, "embedding": [1e999]}, {"index": 1, "embedding": [1]}]}',
    ],
)
def test_anything_else_holds_no_vectors(answer: bytes) -> None:
    """Two were asked for."""
    with pytest.raises(EmbeddingFailed):
        unit_vectors(answer, 2)


def test_vectors_come_in_the_order_of_the_texts() -> None:
    """Whatever the order of the answer."""
    answer = b'{"data": [{"index": 1, "embedding": [0, 2]}, {"index": 0, "embedding": [5, 0]}]}'
    assert unit_vectors(answer, 2).tolist() == [[1, 0], [0, 1]]
