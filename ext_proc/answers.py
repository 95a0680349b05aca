"""What a cache store keeps: one provider's complete answer and what a hit must tell about it."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StoredAnswer:
    """One answer as it is kept. Times are in seconds on the store's clock; token numbers for accounting.

    It is fresh until `fresh_until` and forgotten at `expires_at`; `seconds` is what the call took, so that it
    was asked for at `stored_at - seconds`. `partition` is whose questions it answers.

    Only the body and its type are kept of the response: cookies, dates, connection and rate-limit headers
    belong to the call that was answered first.
    """

    body: bytes
    content_type: str
    model: str
    version: str
    stored_at: float
    expires_at: float
    prompt_tokens: int = 0
    completion_tokens: int = 0
    seconds: float = 0.0
    fresh_until: float = math.inf
    partition: str = ""


@dataclass(frozen=True, slots=True)
class Clocks:
    """The time of day and this process's own clock at one moment, both in seconds."""

    wall: float
    own: float
