from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric

from ext_proc.contract.snapshot import Snapshot
from ext_proc.openai.ratelimits import RateLimitHint
from ext_proc.telemetry.processor_metrics import ProcessorMetrics
from ext_proc.telemetry.record import RequestRecord
from ext_proc.telemetry.request_metrics import RequestMetrics

ROOT = Path(__file__).resolve().parents[3]
MONITORING = ROOT / "k8s" / "monitoring"
DASHBOARD = ROOT / "k8s" / "chart" / "dashboards" / "outrigger.json"
NAME = re.compile(r"\b(?:openai|outrigger|gen_ai)_[a-z_]+\b(?=\{|,)")
FAILED = RequestRecord(
    started_ns=0,
    duration_s=1.0,
    status=503,
    failure="no-healthy-upstream",
    attempts=2,
    own_answer="x",
    operation="chat",
    input_tokens=1,
)
SUFFIXES = {"counter": ["_total"], "histogram": ["_bucket", "_sum", "_count"], "gauge": [""]}


def families() -> list[Metric]:
    """Return every family that a sidecar exposes, each with a sample."""
    metrics = RequestMetrics()
    metrics.use(Snapshot("v"))
    metrics.record(FAILED)
    registry = CollectorRegistry(auto_describe=False)
    registry.register(metrics)
    processor = ProcessorMetrics(registry)
    processor.announce([("cache", ["hit"])])
    processor.observe("b", RateLimitHint(remaining_requests=1))
    return list(registry.collect())


def dashboard() -> dict[str, Any]:
    """Return the Grafana dashboard."""
    loaded: dict[str, Any] = json.loads(DASHBOARD.read_text("utf-8"))
    return loaded


def expressions() -> Iterator[str]:
    """Yield every query of the dashboard."""
    for panel in dashboard()["panels"]:
        for target in panel.get("targets", []):
            yield target["expr"]
    for variable in dashboard()["templating"]["list"]:
        if variable["type"] == "query":
            yield variable["query"]["query"]


def exposed() -> set[str]:
    """Return the names of all samples that a sidecar can expose."""
    return {family.name + suffix for family in families() for suffix in SUFFIXES[family.type]}


def test_dashboard_asks_for_metrics_that_exist() -> None:
    """Every metric in a panel is exposed by a sidecar, under that very name."""
    asked = {name for query in expressions() for name in NAME.findall(re.sub(r"by \([^)]*\)", "", query))}
    assert len(asked) > 10
    assert asked <= exposed()


def test_dashboard_groups_by_labels_that_exist() -> None:
    """Every label that a panel groups by is a label of some metric."""
    asked = {
        label
        for group in re.findall(r"by \(([^)]*)\)", " ".join(expressions()))
        for label in group.replace(" ", "").split(",")
    }
    assert asked <= {label for family in families() for sample in family.samples for label in sample.labels}


def test_dashboard_is_importable() -> None:
    """The schema is new enough, panels have ids of their own and do not overlap."""
    board = dashboard()
    assert board["schemaVersion"] >= 39
    ids = [panel["id"] for panel in board["panels"]]
    assert len(ids) == len(set(ids))
    cells = [
        (x, y)
        for place in (panel["gridPos"] for panel in board["panels"])
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) < 24


def test_scrape_configuration() -> None:
    """The local job asks the port that `up` serves by default."""
    config = yaml.safe_load((MONITORING / "prometheus.yml").read_text("utf-8"))
    jobs = {job["job_name"]: job for job in config["scrape_configs"]}
    assert jobs["outrigger"]["static_configs"][0]["targets"] == ["127.0.0.1:9102"]


@pytest.mark.parametrize(
    "name",
    [
        "openai_request_total",
        "openai_request_duration_bucket",
        "gen_ai_client_operation_duration_seconds_bucket",
        "gen_ai_client_token_usage_bucket",
        "outrigger_cache_requests_total",
        "outrigger_bypass_total",
    ],
)
def test_agreed_names(name: str) -> None:
    """Names that others rely on are exactly these."""
    assert name in exposed()


def test_every_metric_is_documented() -> None:
    """The page about telemetry names every family."""
    page = (ROOT / "docs" / "telemetry.md").read_text("utf-8")
    missing = [f.name for f in families() if f.name not in page and not f.name.endswith("_created")]
    assert missing == []
