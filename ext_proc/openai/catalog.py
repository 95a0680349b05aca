"""The bodies of `GET /v1/models` and `GET /v1/models/{id}` (pure)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import orjson

from ext_proc.openai.errors import ErrorCode, ErrorType, error_body, plain_text

MAX_NAME_CHARS = 200


@dataclass(frozen=True, slots=True)
class ModelCard:
    """One Model as the API shows it. `created` is in seconds since the epoch."""

    id: str
    created: int
    owned_by: str = "outrigger"

    def as_json(self) -> dict[str, object]:
        """Return the API's `model` object."""
        return {"id": self.id, "object": "model", "created": self.created, "owned_by": self.owned_by}


def model_list_body(cards: Iterable[ModelCard]) -> bytes:
    """Return the body that lists `cards`, in their order."""
    return orjson.dumps({"object": "list", "data": [card.as_json() for card in cards]})


def model_body(card: ModelCard) -> bytes:
    """Return the body that shows one Model."""
    return orjson.dumps(card.as_json())


def model_not_found_body(name: str) -> bytes:
    """Return the 404 body for a model that is not configured. `name` is shown cut and without controls."""
    shown = plain_text(name, MAX_NAME_CHARS)
    return error_body(
        f"The model '{shown}' does not exist or you do not have access to it.",
        ErrorType.INVALID_REQUEST,
        "model",
        ErrorCode.MODEL_NOT_FOUND,
    )
