"""The real local model: what it is counted on for."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator

import numpy as np
import pytest
import structlog

from ext_proc.semantic.index import VectorIndex
from ext_proc.semantic.local import LocalEmbedder


@pytest.fixture(scope="module")
def embedder() -> Iterator[LocalEmbedder]:
    """The one that the extra `semantic` installs."""
    made = LocalEmbedder(structlog.get_logger())
    yield made
    made.close()


async def test_vectors_have_unit_length(embedder: LocalEmbedder) -> None:
    """One row a text, whatever the text."""
    vectors = await embedder.embed(["hello", "你好", "", "😀" * 20])
    assert vectors.shape == (4, 384)
    assert vectors.dtype == np.float32
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(np.ones(4), abs=1e-3)


@pytest.mark.parametrize(
    ("asked", "same", "other"),
    [
        ("How do I reset my router?", "What is the way to reset my router?", "How do I bake bread?"),
        ("怎么重置我的路由器？", "我想重置路由器，应该怎么做？", "怎么做面包？"),
    ],
)
async def test_the_same_in_other_words_is_nearer(
    embedder: LocalEmbedder, asked: str, same: str, other: str
) -> None:
    """In English and in Chinese; the index says what the vectors say."""
    one, near, far = await embedder.embed([asked, same, other])
    assert one @ near > 0.94 > one @ far
    index = VectorIndex(384)
    index.put(b"near", near)
    index.put(b"far", far)
    assert [key for key, _ in index.nearest(one, 2)] == [b"near", b"far"]


async def test_the_loop_goes_on_meanwhile(embedder: LocalEmbedder) -> None:
    """It is late by a small part of what the vector takes: the library does not hold the interpreter."""
    text = "How do I get from there to the centre? " * 10
    await embedder.embed(["loaded"])
    working = asyncio.ensure_future(embedder.embed([text]))
    late: list[float] = []
    began = time.perf_counter()
    while not working.done():
        before = time.perf_counter()
        await asyncio.sleep(0.001)
        late.append(time.perf_counter() - before)
    took = time.perf_counter() - began
    assert took > 0.02
    assert sorted(late)[len(late) // 2] < took / 4
