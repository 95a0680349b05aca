"""Which API operation a path names (pure).

Besides OpenAI's own paths below the base path, Azure's deployments are served:
`/openai/deployments/{deployment}/chat/completions?api-version=…`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from urllib.parse import unquote

AZURE = "/openai/deployments/"
OWN = "/_provider/"


class Operation(StrEnum):
    """What is asked for."""

    CHAT = "chat"
    COMPLETION = "completion"
    EMBEDDING = "embedding"
    MODELS = "models"
    MODEL = "model"
    OTHER = "other"


NAMES = {
    "/chat/completions": Operation.CHAT,
    "/completions": Operation.COMPLETION,
    "/embeddings": Operation.EMBEDDING,
    "/models": Operation.MODELS,
}
METHODS = {
    Operation.CHAT: "POST",
    Operation.COMPLETION: "POST",
    Operation.EMBEDDING: "POST",
    Operation.MODELS: "GET",
    Operation.MODEL: "GET",
}


@dataclass(frozen=True, slots=True)
class Target:
    """An operation, and the model that the path names for it ("" when it names none)."""

    operation: Operation
    model: str = ""


def target(path: str, base_path: str) -> Target:
    """Return what `path` (without its query) asks for."""
    if path.startswith(AZURE):
        deployment, _, rest = path[len(AZURE) :].partition("/")
        return Target(NAMES.get("/" + rest, Operation.OTHER), unquote(deployment))
    if not path.startswith(base_path + "/"):
        return Target(Operation.OTHER)
    rest = path[len(base_path) :]
    if rest in NAMES:
        return Target(NAMES[rest])
    if rest.startswith("/models/") and len(rest) > len("/models/"):
        return Target(Operation.MODEL, unquote(rest[len("/models/") :]))
    return Target(Operation.OTHER)
