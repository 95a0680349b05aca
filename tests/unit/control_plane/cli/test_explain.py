"""`outrigger explain`."""

from tests.unit.control_plane.cli.conftest import Run
from tests.unit.control_plane.cli.stub import Stub


def test_each_field_is_a_row(stub: Stub, run: Run) -> None:
    """With the Policy that set it; only what is given is asked for."""
    fields = [
        {"field": "cache.ttl", "value": "24h", "policy": "demo"},
        {"field": "cache.enabled", "value": False, "policy": None},
        {"field": "retry.retryOn", "value": ["connect", "429"], "policy": None},
    ]
    stub.answer("GET /api/v1/explain", {"model": "m", "tier": "", "workload": "default", "fields": fields})
    status, out, _ = run("explain", "--model", "m")
    assert status == 0
    assert [line.split() for line in out.splitlines()] == [
        ["FIELD", "VALUE", "SET", "BY"],
        ["cache.ttl", "24h", "demo"],
        ["cache.enabled", "false", "–"],
        ["retry.retryOn", '["connect",', '"429"]', "–"],
    ]
    assert stub.seen[0].target == "/api/v1/explain?model=m"
