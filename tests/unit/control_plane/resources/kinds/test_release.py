"""Release's own rules."""

from typing import Any

import pytest
from pydantic import ValidationError

from control_plane.resources.kinds.release import ReleaseSpec

SMALLEST = {"model": "m", "from": "a", "to": "b"}


def test_the_smallest_release_has_the_documented_defaults() -> None:
    """Model, from and to; gates are on."""
    spec = ReleaseSpec.model_validate(SMALLEST)
    assert (spec.steps, spec.bake_ms, spec.sticky_by) == ((5, 25, 50, 100), 600_000, ("consumer", "session"))
    assert (spec.gates.error_rate.max_increase, spec.gates.latency_p95.max_ratio) == (0.01, 1.2)
    assert spec.gates.min_requests == 200


@pytest.mark.parametrize(
    "fields",
    [
        {"to": "a"},
        {"steps": []},
        {"steps": [5, 5]},
        {"steps": [50, 25]},
        {"steps": [0, 50]},
        {"steps": [50, 101]},
        {"stickyBy": ["cookie"]},
        {"shadow": 1.5},
        {"gates": {"errorRate": {"maxIncrease": 2}}},
        {"gates": {"latencyP95": {"maxRatio": 0}}},
        {"gates": {"minRequests": 0}},
    ],
)
def test_wrong_values_are_refused(fields: dict[str, Any]) -> None:
    """Steps grow within 1..100, versions differ, rates are shares."""
    with pytest.raises(ValidationError):
        ReleaseSpec.model_validate({**SMALLEST, **fields})
