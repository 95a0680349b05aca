"""A stopwatch: laps, and what it tells of them."""

from __future__ import annotations

import json

from ext_proc.contract import headers as names
from ext_proc.stopwatch import Stopwatch


def test_laps_are_told_in_microseconds_and_the_providers_time_in_milliseconds() -> None:
    """The latter only once the request has left and its answer has come; what changed only where it did."""
    now_ns = [0]
    watch = Stopwatch(lambda: now_ns[0])

    def told() -> object:
        ((name, value),) = watch.told()
        assert name == names.STAGES
        return json.loads(value)

    now_ns[0] = 500
    watch.begin()
    now_ns[0] = 2_500
    watch.lap("resolve", "passed", {"model": "m"})
    assert told() == {"stages": [{"stage": "resolve", "us": 2.0, "did": "passed", "set": {"model": "m"}}]}
    watch.lap("route", "forwarded", {}, leaves=True)
    now_ns[0] = 1_502_500
    watch.came()
    assert told() == {
        "stages": [
            {"stage": "resolve", "us": 2.0, "did": "passed", "set": {"model": "m"}},
            {"stage": "route", "us": 2.0, "did": "forwarded"},
        ],
        "upstreamMs": 1.5,
    }


def test_names_in_any_script_fit_into_a_header() -> None:
    """They are escaped."""
    watch = Stopwatch(lambda: 0)
    watch.lap("resolve", "passed", {"model": "模型"})
    assert watch.told()[0][1].isascii()
