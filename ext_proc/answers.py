"""What a cache store keeps: one provider's complete answer and what a hit must tell about it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StoredAnswer:
    """One answer as it is kept. Times are in seconds on the store's clock; token numbers for accounting.

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
