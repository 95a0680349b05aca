"""What is tried, and what came of it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


@dataclass(frozen=True, slots=True)
class Setting:
    """One candidate: `size` questions in a call; `window_ms` is None where nobody waits for more."""

    size: int
    window_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Observation:
    """One call. `latency_s` is what each of its `asked` questions waited; `held_s` are place-seconds: how
    long the call kept how many places from being used; `tokens` are read and written ones together.
    """

    latency_s: float
    held_s: float
    asked: int
    good: int
    tokens: int = 0
    prompt_tokens: int = 0


class Target(StrEnum):
    """What the best setting is best at."""

    P99 = "p99"
    THROUGHPUT = "throughput"
    COST = "cost"


class Method(StrEnum):
    """Who makes the batches: this tool, in the API's own lists or as a list of conversations; the sidecar,
    from requests that come together; or the sidecar, under a Policy that is set for each trial.
    """

    NATIVE = "native"
    ARRAY = "array"
    WAVES = "waves"
    POLICY = "policy"


class Ending(StrEnum):
    """Why a race ended."""

    SETTLED = "settled"
    REQUESTS = "requests"
    TOKENS = "tokens"
    TIME = "time"
    INTERRUPTED = "interrupted"
    FAILED = "failed"


def settings(sizes: tuple[int, ...], windows_ms: tuple[int, ...]) -> tuple[Setting, ...]:
    """Return every pair, in order, none twice."""
    windows: tuple[int | None, ...] = tuple(sorted(set(windows_ms))) or (None,)
    return tuple(Setting(size, window) for size in sorted(set(sizes)) for window in windows)
