"""Everything the simulated provider can be told, with units, ranges and defaults.

The defaults cost no time and refuse nothing. The field reports' figures are reached with
`rtt_ms=120`, `cold_start_ms=2000`, `decode_ms_per_token=12.5` and a prefill knee at 1,000 tokens.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

MIB = 1024 * 1024


class ProviderSettings(BaseModel):
    """One provider's behaviour. Times are milliseconds unless the name says otherwise; 0 means none.

    `output_tokens * exp(temperature_growth * temperature)` is the mean length of an answer: 42 tokens at
    temperature 0.2 and 78 at 0.8, as one field report measured. `output_spread` is the relative half-width
    around that mean. Up to `prefill_knee_tokens` a prompt token costs `prefill_ms_per_token`, beyond it
    `prefill_ms_per_token_past_knee`. `batch_slowdown` is how much slower decoding gets with each further
    conversation, prompt or choice in one call, as a share.

    Raises:
        pydantic.ValidationError: a value is out of range, or only one of the two TLS files is given.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    host: str = "127.0.0.1"
    port: int = Field(default=0, ge=0, le=65535)
    tls_cert: Path | None = None
    tls_key: Path | None = None
    base_path: str = Field(default="/v1", pattern=r"^(/[^/?#]+)*$")

    models: tuple[str, ...] = ()
    api_keys: tuple[str, ...] = ()
    seed: int = 0
    answers: Literal["words", "echo"] = "words"
    other_paths: Literal["refuse", "echo"] = "refuse"
    conversations: bool = False
    max_conversations: int = Field(default=0, ge=0)

    rtt_ms: float = Field(default=0, ge=0)
    tls_handshake_ms: float = Field(default=0, ge=0)
    cold_start_ms: float = Field(default=0, ge=0)
    idle_after_s: float = Field(default=600, ge=0)
    prefill_ms_per_token: float = Field(default=0, ge=0)
    prefill_knee_tokens: int = Field(default=0, ge=0)
    prefill_ms_per_token_past_knee: float = Field(default=0, ge=0)
    decode_ms_per_token: float = Field(default=0, ge=0)
    batch_slowdown: float = Field(default=0, ge=0)
    output_tokens: float = Field(default=34.17, gt=0, le=100_000)
    temperature_growth: float = Field(default=1.0317, ge=0, le=5)
    output_spread: float = Field(default=0.1, ge=0, lt=1)

    requests_per_minute: int | None = Field(default=None, ge=1)
    tokens_per_minute: int | None = Field(default=None, ge=1)
    slots: int = Field(default=0, ge=0)
    queue: int | None = Field(default=None, ge=0)
    error_rate: float = Field(default=0, ge=0, le=1)
    error_statuses: tuple[int, ...] = (500,)

    log_size: int = Field(default=1000, ge=0)
    log_body_bytes: int = Field(default=0, ge=0)
    max_body_bytes: int = Field(default=128 * MIB, ge=1)
    max_concurrent_streams: int = Field(default=1000, ge=1)

    @model_validator(mode="after")
    def _tls_needs_both(self) -> Self:
        if (self.tls_cert is None) != (self.tls_key is None):
            raise ValueError("a certificate needs its key: give both, or neither")
        if any(not 400 <= status <= 599 for status in self.error_statuses) or not self.error_statuses:
            raise ValueError("an error status is a number from 400 to 599")
        return self
