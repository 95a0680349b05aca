"""How each version of each Model does."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ext_proc.agent.statistics import VersionCounts
from ext_proc.contract import push_pb2
from ext_proc.contract.buckets import bucket
from ext_proc.contract.comparisons import Comparison, Likeness
from ext_proc.contract.snapshot import Model, Rollout, Snapshot, Tier, Version
from ext_proc.telemetry.record import RequestRecord


def policy(*versions: str) -> Snapshot:
    """Return a policy with a Model `m` of these versions."""
    return Snapshot("1", models={"m": Model("m", tuple(Version(name, "b", "u") for name in versions))})


def record(**fields: Any) -> RequestRecord:
    """Return a call of `m`, version `v`, that went well."""
    defaults: dict[str, Any] = {
        "started_ns": 0, "duration_s": 0.5, "status": 200, "attempts": 1, "model": "m", "version": "v",
    }  # fmt: skip
    return RequestRecord(**{**defaults, **fields})


def counted(*records: RequestRecord) -> push_pb2.VersionStatistics:
    """Return what is counted of version `v`."""
    counts = VersionCounts("e")
    counts.use(policy("v"))
    for item in records:
        counts.record(item)
    (found,) = counts.report().versions
    return found


@pytest.mark.parametrize(
    ("fields", "number"),
    [
        ({"status": 500}, "errors"),
        ({"status": 504}, "errors"),
        ({"status": 200, "aborted": True, "failure": "upstream-remote-reset"}, "errors"),
        ({"status": 429}, "throttled"),
        ({"status": 400}, "refused"),
        ({"status": 200, "aborted": True, "failure": "downstream-connection-termination"}, "abandoned"),
        ({"status": 0, "aborted": True, "failure": "downstream-remote-reset"}, "abandoned"),
    ],
)
def test_each_end_is_counted_for_what_it_is(fields: dict[str, Any], number: str) -> None:
    """And its time is not: it would flatter or blame the version."""
    found = counted(record(**fields))
    assert found.calls == 1
    numbers = {name: getattr(found, name) for name in ("errors", "throttled", "refused", "abandoned")}
    assert numbers == {**dict.fromkeys(numbers, 0), number: 1}
    assert not found.duration


def test_times_and_tokens_of_successes_are_counted() -> None:
    """Time to the first byte of streams only."""
    found = counted(
        record(input_tokens=3, output_tokens=4, first_byte_s=0.1),
        record(stream=True, first_byte_s=0.2, input_tokens=1),
    )
    assert (found.calls, found.input_tokens, found.output_tokens) == (2, 4, 4)
    assert dict(found.duration) == {bucket(0.5): 2}
    assert dict(found.first_byte) == {bucket(0.2): 1}


@pytest.mark.parametrize(
    "fields", [{"attempts": 0}, {"model": ""}, {"version": "w"}, {"model": "other"}], ids=repr
)
def test_what_says_nothing_of_a_version_is_left_out(fields: dict[str, Any]) -> None:
    """Hits and answers of our own, other paths, names that no policy has."""
    counts = VersionCounts("e")
    counts.use(policy("v"))
    counts.record(record(**fields))
    assert not counts.report().versions


def test_versions_that_are_gone_are_forgotten() -> None:
    """So that names do not pile up; the others count on."""
    counts = VersionCounts("e")
    counts.use(policy("v", "w"))
    for version in "vw":
        counts.record(record(version=version))
    counts.use(policy("w", "x"))
    counts.record(record(version="w"))
    assert [(item.version, item.calls) for item in counts.report().versions] == [("w", 2)]
    assert counts.report().epoch == "e"


def test_news_is_what_changed() -> None:
    """Told once; the report has it whenever asked."""
    counts = VersionCounts("e")
    counts.use(policy("v"))
    counts.record(record())
    assert counts.news() == counts.report()
    assert counts.news() is None


def test_calls_of_a_release_are_counted_for_it_too() -> None:
    """By the version that it chose: what a fallback had to answer is that version's error."""
    released = Rollout("r", "v", "w", 0.5, "salt")
    model = Model("m", (Version("v", "b", "u"), Version("w", "b", "u")), releases=(released,))
    counts = VersionCounts("e")
    assert not counts.urgent
    counts.use(Snapshot("1", models={"m": model, "n": Model("n", (Version("v", "b", "u"),))}))
    assert counts.urgent
    counts.record(record(release="r", assigned="v", output_tokens=8, filtered=True))
    counts.record(record(release="r", assigned="w", model="n", filtered=True))
    counts.record(record(release="r", assigned="w", version="w", status=429))
    counts.record(record(release="gone", assigned="w", version="w"))
    counts.record(record(release="r", assigned="w", version="w", attempts=0))
    told = counts.report()
    assert [(item.version, item.release, item.calls) for item in told.releases] == [
        ("v", "r", 1),
        ("w", "r", 2),
    ]
    assert (told.releases[1].errors, told.releases[1].throttled, len(told.releases[1].duration)) == (1, 1, 0)
    assert dict(told.releases[0].output) == {22: 1}
    assert [item.filtered for item in told.releases] == [1, 0]
    assert [(item.model, item.version, item.calls) for item in told.versions] == [
        ("m", "v", 1),
        ("m", "w", 2),
        ("n", "v", 1),
    ]
    counts.use(policy("v", "w"))
    assert not counts.report().releases


def test_tiers_are_counted_with_every_request() -> None:
    """Our own refusals and answers from the cache too; a Tier that is gone is forgotten."""
    counts = VersionCounts("e")
    snapshot = Snapshot("1", tiers={"gold": Tier("gold")})
    counts.use(snapshot)
    for item in (
        record(operation="chat", tier="gold", input_tokens=2, output_tokens=3),
        record(operation="chat", tier="gold", status=429, attempts=0),
        record(operation="chat", tier="gold", status=429),
        record(operation="chat", tier="gold", status=502),
        record(operation="chat", tier="gold", attempts=0, cache="hit", output_tokens=50),
        record(operation="chat", tier="unknown"),
        record(operation="chat"),
        record(tier="gold"),
    ):
        counts.record(item)
    assert list(counts.report().tiers) == [
        push_pb2.TierStatistics(requests=1),
        push_pb2.TierStatistics(tier="gold", requests=5, limited=1, errors=1, tokens=5),
    ]
    counts.use(policy("v"))
    assert [tier.tier for tier in counts.report().tiers] == [""]


def test_what_processors_compare_is_told_of_the_releases_in_force() -> None:
    """All of it each time; what is of no Release any more is left out."""
    counts = VersionCounts("e")
    released = replace(policy("v"), models={"m": Model("m", (), releases=(Rollout("r", "v", "w", 0.0, ""),))})
    counts.use(released)
    counts.news()
    counts.compared({"r": Comparison(likeness=Likeness(compared=3)), "gone": Comparison()})
    told = counts.news()
    assert told is not None
    assert [(item.release, item.compared) for item in told.comparisons] == [("r", 3)]
    assert counts.news() is None
