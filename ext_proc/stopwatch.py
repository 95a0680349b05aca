"""How long each stage took over one request, and what it changed (pure of exchanges: see `timing`).

What is told holds no prompt, no answer and no key.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from ext_proc.contract import headers as names


class Stopwatch:
    """The times of one exchange. `clock_ns` is monotonic."""

    __slots__ = ("_came_ns", "_clock_ns", "_left_ns", "_since_ns", "_stages")

    def __init__(self, clock_ns: Callable[[], int]) -> None:
        self._clock_ns = clock_ns
        self._stages: list[dict[str, Any]] = []
        self._since_ns = 0
        self._left_ns = 0
        self._came_ns = 0

    def begin(self) -> None:
        """Start the clock of a stage."""
        self._since_ns = self._clock_ns()

    def lap(self, stage: str, did: str, news: Mapping[str, str], *, leaves: bool = False) -> None:
        """Count what has passed for `stage`: what it decided, and what it changed.

        `leaves`: the request goes to a provider now.
        """
        now_ns = self._clock_ns()
        told = {"stage": stage, "us": round((now_ns - self._since_ns) / 1e3, 1), "did": did}
        self._stages.append({**told, "set": dict(news)} if news else told)
        if leaves:
            self._left_ns = now_ns

    def came(self) -> None:
        """Take in that the head of the provider's answer has come."""
        self._came_ns = self._clock_ns()

    def told(self) -> tuple[tuple[str, str], ...]:
        """Return the response header that tells it."""
        body: dict[str, Any] = {"stages": self._stages}
        if self._left_ns and self._came_ns:
            body["upstreamMs"] = round((self._came_ns - self._left_ns) / 1e6, 3)
        return ((names.STAGES, json.dumps(body, separators=(",", ":"))),)
