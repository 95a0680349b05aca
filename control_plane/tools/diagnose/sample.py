"""What one answered call tells (pure)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Sample:
    """One answered call. Times are milliseconds; the first three are None on a connection that was there.

    `ttfb_ms` (to the answer's first byte) and `total_ms` count from the call's start, so on a new connection
    they include what opening it took. `first_token_ms` and `gaps_ms` are those of a stream. Tokens are what
    the answer's `usage` says, 0 where it says nothing. `cut`: the token limit ended the answer;
    `sidecar`: it came through one.
    """

    ttfb_ms: float
    total_ms: float
    dns_ms: float | None = None
    connect_ms: float | None = None
    tls_ms: float | None = None
    prompt_tokens: int = 0
    output_tokens: int = 0
    cut: bool = False
    http2: bool = False
    sidecar: bool = False
    first_token_ms: float | None = None
    gaps_ms: tuple[float, ...] = ()

    @property
    def opened(self) -> bool:
        """Whether the call opened its connection."""
        return self.connect_ms is not None
