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
    assert (spec.gates.min_requests, spec.warm_cache) == (200, 0)


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
        {"warmCache": -1},
        {"warmCache": 1001},
        {"gates": {"errorRate": {"maxIncrease": 2}}},
        {"gates": {"latencyP95": {"maxRatio": 0}}},
        {"gates": {"minRequests": 0}},
        {"gates": {"prometheus": [{"query": "q"}]}},
        {"gates": {"prometheus": [{"query": "q", "max": 1, "min": 0}]}},
        {"gates": {"prometheus": [{"query": "", "max": 1}]}},
        {"notify": ["h"]},
        {"notify": [5]},
        {"notify": [{"url": "http://h", "secret": {}}]},
        {"notify": [{"url": "http://h", "secret": "hunter2"}]},
        {"notify": ["http://h"] * 17},
    ],
)
def test_wrong_values_are_refused(fields: dict[str, Any]) -> None:
    """Steps grow within 1..100, versions differ, rates are shares."""
    with pytest.raises(ValidationError):
        ReleaseSpec.model_validate({**SMALLEST, **fields})


def test_a_webhook_is_a_url_alone_or_with_its_secret() -> None:
    """Both are the same inside."""
    signed = {"url": "https://h/x?y", "secret": {"env": "A"}}
    spec = ReleaseSpec.model_validate({**SMALLEST, "notify": ["http://h/", signed]})
    assert [(one.url, one.secret and one.secret.env) for one in spec.notify] == [
        ("http://h/", None),
        ("https://h/x?y", "A"),
    ]
