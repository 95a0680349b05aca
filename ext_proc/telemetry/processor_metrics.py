"""What the processors decide, counted in files that outlive them.

`prometheus_client`'s multiprocess mode: each processor writes into files of its own below the metrics
folder, the agent adds them up. Files are named after the worker and not after its pid, so a processor that
is started again goes on counting where it was killed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from prometheus_client import CollectorRegistry, Counter, Gauge, values

from ext_proc.contract.entities import ENTITIES, Entity
from ext_proc.openai.ratelimits import RateLimitHint
from ext_proc.telemetry.metric_files import TornFileError, check
from ext_proc.warmup import Outcome

FOLDER_VARIABLE: Final = "PROMETHEUS_MULTIPROC_DIR"


class Remaining(StrEnum):
    """What a provider says is left until its reset."""

    REQUESTS = "requests"
    TOKENS = "tokens"


def keep_metrics_in(folder: Path, worker: int) -> None:
    """Make this process keep its metrics in `folder`, as worker number `worker`.

    A choice for the whole process, to be made once and before any metric is made. Gauges of a dead
    predecessor are forgotten, its counters are kept; a file that cannot be read is removed.

    Raises:
        OSError: the folder cannot be made.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    identity = f"w{worker}"
    for path in folder.glob(f"*_{identity}.db"):
        if path.name.startswith("gauge_") or not _readable(path):
            path.unlink(missing_ok=True)
    os.environ[FOLDER_VARIABLE] = str(folder)
    values.ValueClass = values.MultiProcessValue(lambda: identity)  # type: ignore[no-untyped-call]


class ProcessorMetrics:
    """The processor's own series.

    Args:
        registry: where they are registered.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        self._decisions = Counter(
            "outrigger_decisions",
            "Decisions of the processor, by stage and reason.",
            ["stage", "reason"],
            registry=registry,
        )
        self._warmed = Counter(
            "outrigger_warmup_requests",
            "Calls of the processor's own that were to wake a provider, by what became of them.",
            ["outcome"],
            registry=registry,
        )
        for outcome in Outcome:
            self._warmed.labels(outcome.value)
        self._cold_starts = Counter(
            "outrigger_cold_starts",
            "First calls after a pause that were far slower than usual, to Backends with a warmup.",
            registry=registry,
        )
        self._increments: dict[tuple[str, str], Callable[[], Any]] = {}
        self._remaining = Gauge(
            "outrigger_provider_remaining",
            "What the provider last said is left of its quota.",
            ["backend", "kind"],
            registry=registry,
            multiprocess_mode="livemostrecent",
        )
        self._setters: dict[tuple[str, Remaining], Callable[[float], None]] = {}
        masked = Counter(
            "outrigger_masked_items",
            "What was masked in prompts, by entity.",
            ["entity"],
            registry=registry,
        )
        self._masked: dict[Entity, Callable[[float], Any]] = {
            entity: masked.labels(entity).inc for entity in ENTITIES
        }

    def announce(self, decisions: Iterable[tuple[str, Iterable[str]]]) -> None:
        """Make a series for every reason of every stage; no other pair can be counted."""
        for stage, reasons in decisions:
            for reason in reasons:
                self._increments[stage, str(reason)] = self._decisions.labels(stage, str(reason)).inc

    def decided(self, stage: str, reason: str) -> None:
        """Count one decision.

        Raises:
            KeyError: the stage or the reason was not announced.
        """
        self._increments[stage, reason]()

    def masked(self, entity: Entity, items: int) -> None:
        """Count what was masked in one prompt."""
        self._masked[entity](items)

    def warmed(self, outcome: Outcome) -> None:
        """Count a call that was to wake a provider."""
        self._warmed.labels(outcome.value).inc()

    def started_cold(self) -> None:
        """Count a call of somebody that found its provider cold."""
        self._cold_starts.inc()

    def observe(self, backend: str, hint: RateLimitHint) -> None:
        """Note what `backend` (a configured name) said is left."""
        if hint.remaining_requests is not None:
            self._set(backend, Remaining.REQUESTS, hint.remaining_requests)
        if hint.remaining_tokens is not None:
            self._set(backend, Remaining.TOKENS, hint.remaining_tokens)

    def _set(self, backend: str, kind: Remaining, amount: float) -> None:
        setter = self._setters.get((backend, kind))
        if setter is None:
            setter = self._setters[backend, kind] = self._remaining.labels(backend, kind.value).set
        setter(amount)


def _readable(path: Path) -> bool:
    try:
        check(path)
    except TornFileError:
        return False
    return True
