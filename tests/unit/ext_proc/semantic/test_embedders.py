"""Which embedder a Policy gets."""

from __future__ import annotations

import numpy as np
import structlog

from ext_proc.contract.policies import CachePolicy, Policy, SemanticPolicy
from ext_proc.contract.snapshot import Model, Version
from ext_proc.exchange import Exchange
from ext_proc.semantic.embedders import PolicyEmbedders
from ext_proc.semantic.embedding import Vectors
from ext_proc.semantic.local import NAME
from ext_proc.semantic.model import ModelEmbedder
from tests.unit.ext_proc.exchanges import exchange, snapshot
from tests.unit.ext_proc.semantic.provider import EmbeddingsProvider


class LocalModel:
    """A local model."""

    def query(self, text: str) -> Vectors:
        """Return a vector."""
        return np.ones(1, np.float32)


def made(provider: EmbeddingsProvider) -> PolicyEmbedders:
    """Return embedders whose local model is not the real one."""
    return PolicyEmbedders(provider, lambda: 1.0, structlog.get_logger(), LocalModel)


def wanting(embedder: str) -> Exchange:
    """Return an exchange whose Policy names `embedder`."""
    models = {
        "m": Model("m", (Version("v1", "b", "m"),)),
        "vectors": Model("vectors", (Version("v", "b", "x"),)),
    }
    one = exchange(snapshot(models=models))
    one.policy = Policy(cache=CachePolicy(semantic=SemanticPolicy(enabled=True, embedder=embedder)))
    return one


async def test_local_is_the_one_in_this_process() -> None:
    """Questions do not stand in the queue of answers: each has a thread."""
    embedders = made(EmbeddingsProvider())
    questions, answers = embedders.of_questions(wanting("local")), embedders.of_answers(wanting("local"))
    assert questions is not None
    assert answers is not None
    assert questions.name == answers.name == NAME
    assert (await questions.vector("a")).tolist() == [1]
    embedders.close()


async def test_a_model_is_the_providers() -> None:
    """What it has made is remembered for all exchanges, and so is its trouble."""
    provider = EmbeddingsProvider()
    embedders = made(provider)
    for text in ("a", "a", "b"):
        questions = embedders.of_questions(wanting("vectors"))
        assert questions is not None
        await questions.vector(text)
    assert len(provider.calls) == 2
    assert isinstance(embedders.of_answers(wanting("vectors")), ModelEmbedder)


def test_a_model_that_is_not_there_is_told_once() -> None:
    """And nothing is found."""
    with structlog.testing.capture_logs() as told:
        embedders = made(EmbeddingsProvider())
        assert embedders.of_questions(wanting("gone")) is None
        assert embedders.of_answers(wanting("gone")) is None
    assert [line["embedder"] for line in told] == ["gone"]
