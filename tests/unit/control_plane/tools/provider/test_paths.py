"""Paths name operations, exactly."""

from __future__ import annotations

import pytest

from control_plane.tools.provider.paths import Operation, Target, target


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("/v1/chat/completions", Target(Operation.CHAT)),
        ("/v1/completions", Target(Operation.COMPLETION)),
        ("/v1/embeddings", Target(Operation.EMBEDDING)),
        ("/v1/models", Target(Operation.MODELS)),
        ("/v1/models/org%2Fgpt", Target(Operation.MODEL, "org/gpt")),
        ("/v1/models/", Target(Operation.OTHER)),
        ("/v1/files", Target(Operation.OTHER)),
        ("/v1/chat/completions/", Target(Operation.OTHER)),
        ("//v1/chat/completions", Target(Operation.OTHER)),
        ("/chat/completions", Target(Operation.OTHER)),
        ("/openai/deployments/mini/chat/completions", Target(Operation.CHAT, "mini")),
        ("/openai/deployments/mini/other", Target(Operation.OTHER, "mini")),
    ],
)
def test_target(path: str, found: Target) -> None:
    """OpenAI's and Azure's paths are known; any other spelling is another path."""
    assert target(path, "/v1") == found


def test_base_path() -> None:
    """The API may be served below any path, or none."""
    assert target("/some/api/embeddings", "/some/api") == Target(Operation.EMBEDDING)
    assert target("/embeddings", "") == Target(Operation.EMBEDDING)
