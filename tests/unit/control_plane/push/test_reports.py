"""What subscribers say."""

from __future__ import annotations

import pytest

from control_plane.push.reports import (
    MAX_LABELS,
    MAX_NAME,
    MAX_VERSIONS,
    MalformedReportError,
    envoy_of,
    identity_of,
    releases_of,
    statistics_of,
    tiers_of,
)
from control_plane.push.sidecars import Identity
from control_plane.push.views import EnvoyState, ReleaseCounts, TierStatistics, VersionStatistics
from control_plane.releases.counts import Counts
from ext_proc.contract import push_pb2


def hello(**fields: object) -> push_pb2.Report:
    """Return a Hello."""
    return push_pb2.Report(hello=push_pb2.Hello(**{"subscriber_id": "a", **fields}))  # type: ignore[arg-type]


def test_hello_says_who_is_there() -> None:
    """Without a workload it is the default one."""
    report = hello(build="1", in_force="r1-a", labels={"z": "1"}, accepts=[push_pb2.ZLIB], keeps=True)
    assert identity_of(report) == Identity("a", "default", "1", "r1-a", {"z": "1"}, True, True)
    assert identity_of(hello(workload="shop")) == Identity("a", "shop")
    assert identity_of(hello(answers=True)).answers


@pytest.mark.parametrize(
    "report",
    [
        push_pb2.Report(),
        push_pb2.Report(ack=push_pb2.Ack(version="r1")),
        hello(subscriber_id=""),
        hello(subscriber_id="x" * (MAX_NAME + 1)),
        hello(subscriber_id="a\nb"),
        hello(workload="\x1b[2J"),
    ],
)
def test_who_is_nobody_is_refused(report: push_pb2.Report) -> None:
    """Something else first, or a name that none can have."""
    with pytest.raises(MalformedReportError):
        identity_of(report)


def test_what_is_beyond_all_reason_is_cut() -> None:
    """A subscriber cannot fill the control plane's memory."""
    labels = {f"{index:04}" + "k" * 500: "v" * 500 for index in range(200)}
    found = identity_of(hello(labels=labels, build="b" * 10_000)).labels
    assert len(found) == MAX_LABELS
    assert max(len(key) + len(value) for key, value in found.items()) <= 2 * MAX_NAME
    versions = [push_pb2.VersionStatistics(model=str(index)) for index in range(1000)]
    assert len(statistics_of(push_pb2.Statistics(versions=versions))) == MAX_VERSIONS


@pytest.mark.parametrize("state", list(EnvoyState))
def test_every_state_of_envoy_is_known(state: EnvoyState) -> None:
    """One that is not is unknown."""
    said = push_pb2.Envoy(state=state.name, version="1.2.3")
    assert envoy_of(said) == (state, "1.2.3")
    from_another_build = push_pb2.Envoy.FromString(b"\x08\x63")  # state 99
    assert envoy_of(from_another_build)[0] is EnvoyState.UNKNOWN


def test_statistics_are_values() -> None:
    """Every number of every version."""
    item = push_pb2.VersionStatistics(
        model="m", version="v", calls=9, errors=1, throttled=2, refused=3, abandoned=4,
        input_tokens=5, output_tokens=6, duration={2: 7, 1: 8}, first_byte={-1: 1},
    )  # fmt: skip
    (found,) = statistics_of(push_pb2.Statistics(versions=[item]))
    assert found == VersionStatistics("m", "v", 9, 1, 2, 3, 4, 5, 6, {1: 8, 2: 7}, {-1: 1})


def test_of_a_release_whatever_is_no_answer_is_an_error() -> None:
    """A version that is refused or throttled serves nobody."""
    item = push_pb2.VersionStatistics(
        release="r", version="v", calls=9, errors=1, throttled=2, refused=3, filtered=4
    )
    item.duration[70], item.output[50], item.input_tokens = 3, 3, 5
    found = releases_of(push_pb2.Statistics(epoch="e", releases=[item]))
    assert found == (ReleaseCounts("r", "v", Counts(9, 6, 5, 0, {70: 3}, {}, {50: 3}, 4)),)


def test_tiers_are_told() -> None:
    """Those of callers without one too."""
    told = push_pb2.TierStatistics(tier="gold", requests=5, limited=1, errors=2, tokens=9)
    statistics = push_pb2.Statistics(tiers=[push_pb2.TierStatistics(requests=1), told])
    assert tiers_of(statistics) == (TierStatistics("", 1), TierStatistics("gold", 5, 1, 2, 9))
