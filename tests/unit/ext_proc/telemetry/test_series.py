from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from ext_proc.telemetry.series import CounterTable, HistogramTable


def test_counter_is_exposed_with_total() -> None:
    """The exposition adds `_total` to the counter's name, as the format wants it."""
    table = CounterTable("calls", "Calls.", ["status"])
    table.inc(("200",))
    table.inc(("200",), 2)
    table.inc(("500",), 0)
    registry = CollectorRegistry(auto_describe=False)
    registry.register(table)
    assert registry.get_sample_value("calls_total", {"status": "200"}) == 3
    assert registry.get_sample_value("calls_total", {"status": "500"}) == 0


@given(st.lists(st.floats(min_value=0, max_value=10), max_size=50))
def test_buckets_are_cumulative(values: list[float]) -> None:
    """Each bucket counts the values up to its bound, and count and sum are those of all values."""
    table = HistogramTable("seconds", "Seconds.", ["model"], (1, 2.5))
    for value in values:
        table.observe(("m",), value)
    registry = CollectorRegistry(auto_describe=False)
    registry.register(table)
    for bound, name in ((1, "1.0"), (2.5, "2.5"), (10, "+Inf")):
        got = registry.get_sample_value("seconds_bucket", {"model": "m", "le": name})
        assert (got or 0) == sum(value <= bound for value in values)
    assert (registry.get_sample_value("seconds_count", {"model": "m"}) or 0) == len(values)
    assert abs((registry.get_sample_value("seconds_sum", {"model": "m"}) or 0) - sum(values)) < 1e-6
