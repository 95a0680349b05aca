"""Token usage as providers report it, and an estimate where they do not (pure)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

MAX_TOKENS: Final = 1_000_000_000  # above this a number is a provider's mistake, not a count
BYTES_PER_TOKEN: Final = 4  # OpenAI's rule of thumb for English text


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one call: `cached_tokens` are of the prompt's, `reasoning_tokens` of the completion's."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    reasoning_tokens: int = 0

    @property
    def total_tokens(self) -> int:
        """Prompt and completion together."""
        return self.prompt_tokens + self.completion_tokens

    def at_least(self, produced: int) -> Usage:
        """Return it with at least `produced` completion tokens: what a stream tells early is no last word."""
        return self if self.completion_tokens >= produced else replace(self, completion_tokens=produced)


def parse_usage(document: object) -> Usage | None:
    """Return the usage in a response (or stream chunk) of chat, completions or embeddings.

    None when there is no `usage` object or no believable `prompt_tokens` in it. A single junk number
    beside it counts as 0.
    """
    if not isinstance(document, dict):
        return None
    usage = document.get("usage")
    if not isinstance(usage, dict):
        return None
    prompt = _count(usage, "prompt_tokens")
    if prompt is None:
        return None
    completion = _count(usage, "completion_tokens") or 0
    cached = _count(usage.get("prompt_tokens_details"), "cached_tokens") or 0
    reasoning = _count(usage.get("completion_tokens_details"), "reasoning_tokens") or 0
    return Usage(prompt, completion, cached, reasoning)


def estimate_tokens(text_bytes: int) -> int:
    """Return a rough number of tokens for `text_bytes` bytes of UTF-8; label it an estimate."""
    return -(-max(text_bytes, 0) // BYTES_PER_TOKEN)


def _count(numbers: object, name: str) -> int | None:
    value = numbers.get(name) if isinstance(numbers, dict) else None
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if value is None or isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MAX_TOKENS:
        return None
    return value
