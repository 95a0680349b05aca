"""What the controller counts."""

from __future__ import annotations

from control_plane.controller.metrics import Metrics


def test_every_series_is_told() -> None:
    """Who leads, what there is, what failed, what was told and written."""
    metrics = Metrics()
    metrics.leads(True)
    metrics.resources("Pin", 3)
    metrics.broken("pins")("Expired")
    metrics.mirrored("tell", "ok")
    metrics.written("Conflict")
    text = metrics.text().decode()
    for line in (
        "outrigger_controller_leads 1.0",
        'outrigger_controller_resources{kind="Pin"} 3.0',
        'outrigger_controller_watch_failures_total{collection="pins",reason="Expired"} 1.0',
        'outrigger_controller_mirror_calls_total{call="tell",result="ok"} 1.0',
        'outrigger_controller_status_writes_total{result="Conflict"} 1.0',
    ):
        assert line in text
