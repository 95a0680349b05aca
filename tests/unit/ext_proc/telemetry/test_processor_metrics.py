from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from ext_proc.openai.ratelimits import RateLimitHint
from ext_proc.telemetry.exposition import FolderCollector
from ext_proc.telemetry.processor_metrics import ProcessorMetrics

WORKER = """
import os, signal, sys
from pathlib import Path
from prometheus_client import CollectorRegistry
from ext_proc.openai.ratelimits import RateLimitHint
from ext_proc.telemetry.processor_metrics import ProcessorMetrics, keep_metrics_in
keep_metrics_in(Path(sys.argv[1]), int(sys.argv[2]))
metrics = ProcessorMetrics(CollectorRegistry())
metrics.announce([("cache", ["served-from-cache"])])
if sys.argv[3] != "0":
    metrics.observe("openai", RateLimitHint(remaining_requests=int(sys.argv[3])))
metrics.decided("cache", "served-from-cache")
metrics.masked("phone", 2)
os.kill(os.getpid(), signal.SIGKILL)
"""


class Silent:
    """A logger that must not be used."""

    def warning(self, event: str, **fields: object) -> None:
        """Fail the test."""
        raise AssertionError((event, fields))


def run_worker(folder: Path, worker: int, remaining: int) -> None:
    """Run a processor that counts one decision and is killed."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", WORKER, str(folder), str(worker), str(remaining)]
    assert subprocess.run(command, env=environment, check=False).returncode == -9


def sample(folder: Path, name: str, labels: dict[str, str]) -> float | None:
    """Scrape the folder and return one value."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(FolderCollector(folder, Silent(), lambda: 0.0))
    return registry.get_sample_value(name, labels)


def test_counts_survive_a_killed_processor_and_add_up(tmp_path: Path) -> None:
    """Two workers, one of them killed and started again, count three decisions in two files."""
    for worker in (0, 0, 1):
        run_worker(tmp_path, worker, 0)
    labels = {"stage": "cache", "reason": "served-from-cache"}
    assert sample(tmp_path, "outrigger_decisions_total", labels) == 3
    assert sample(tmp_path, "outrigger_masked_items_total", {"entity": "phone"}) == 6
    assert sample(tmp_path, "outrigger_masked_items_total", {"entity": "key"}) == 0
    assert len(list(tmp_path.glob("counter_*.db"))) == 2


def test_gauge_of_a_dead_processor_is_forgotten_by_its_successor(tmp_path: Path) -> None:
    """What the predecessor last heard of a quota is not shown for ever."""
    labels = {"backend": "openai", "kind": "requests"}
    run_worker(tmp_path, 0, 41)
    assert sample(tmp_path, "outrigger_provider_remaining", labels) == 41
    run_worker(tmp_path, 0, 0)
    assert sample(tmp_path, "outrigger_provider_remaining", labels) is None


def test_torn_file_does_not_stop_a_processor(tmp_path: Path) -> None:
    """A file that cannot be read is replaced."""
    (tmp_path / "counter_w0.db").write_bytes(b"\xff" * 100)
    run_worker(tmp_path, 0, 0)
    labels = {"stage": "cache", "reason": "served-from-cache"}
    assert sample(tmp_path, "outrigger_decisions_total", labels) == 1


def test_reasons_are_a_closed_set() -> None:
    """A reason that was not announced is a mistake in the program, not a new series."""
    metrics = ProcessorMetrics(CollectorRegistry())
    metrics.announce([("cache", ["a"])])
    metrics.observe("openai", RateLimitHint(remaining_tokens=7))
    with pytest.raises(KeyError):
        metrics.decided("cache", "invented")
