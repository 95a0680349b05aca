"""What subscribers say, from the protocol's messages to the fleet's values (pure)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from control_plane.push.sidecars import Identity
from control_plane.push.views import EnvoyState, ReleaseCounts, TierStatistics, VersionStatistics
from control_plane.releases.counts import Both, Compared, Counts
from ext_proc.contract import push_pb2
from ext_proc.contract.comparisons import Outcomes
from ext_proc.contract.comparisons_wire import comparisons_of

MAX_NAME: Final = 253
MAX_LABELS: Final = 64
MAX_VERSIONS: Final = 500
MAX_BUCKETS: Final = 300
DEFAULT_WORKLOAD: Final = "default"

_ENVOY: Final = {
    push_pb2.Envoy.LIVE: EnvoyState.LIVE,
    push_pb2.Envoy.WARMING: EnvoyState.WARMING,
    push_pb2.Envoy.DRAINING: EnvoyState.DRAINING,
    push_pb2.Envoy.DEAD: EnvoyState.DEAD,
}


class MalformedReportError(Exception):
    """A subscriber said something that the protocol does not know; the message says what is missing."""


def identity_of(report: push_pb2.Report) -> Identity:
    """Return who says Hello.

    Raises:
        MalformedReportError: it is no Hello, or a name in it can be none.
    """
    hello = report.hello
    if report.WhichOneof("kind") != "hello" or not hello.subscriber_id:
        raise MalformedReportError("say Hello with a subscriber_id first")
    workload = hello.workload or DEFAULT_WORKLOAD
    for what, name in (("subscriber_id", hello.subscriber_id), ("workload", workload)):
        if len(name) > MAX_NAME or not name.isprintable():
            raise MalformedReportError(f"the {what} must be at most {MAX_NAME} printable characters")
    return Identity(
        hello.subscriber_id,
        workload,
        build=hello.build[:MAX_NAME],
        in_force=hello.in_force[:MAX_NAME],
        labels={key[:MAX_NAME]: value[:MAX_NAME] for key, value in sorted(hello.labels.items())[:MAX_LABELS]},
        unpacks=push_pb2.ZLIB in hello.accepts,
        keeps=hello.keeps,
        answers=hello.answers,
    )


def envoy_of(envoy: push_pb2.Envoy) -> tuple[EnvoyState, str]:
    """Return the state of a subscriber's Envoy, and its version."""
    return _ENVOY.get(envoy.state, EnvoyState.UNKNOWN), envoy.version[:MAX_NAME]


def releases_of(statistics: push_pb2.Statistics) -> tuple[ReleaseCounts, ...]:
    """Return how the versions do between which Releases chose; everything that is no answer is an error."""
    return tuple(
        ReleaseCounts(
            item.release[:MAX_NAME],
            item.version[:MAX_NAME],
            Counts(
                calls=item.calls,
                errors=item.errors + item.throttled + item.refused,
                input_tokens=item.input_tokens,
                output_tokens=item.output_tokens,
                duration=_buckets(item.duration),
                first_byte=_buckets(item.first_byte),
                output=_buckets(item.output),
                filtered=item.filtered,
            ),
        )
        for item in statistics.releases[:MAX_VERSIONS]
    )


def compared_of(statistics: push_pb2.Statistics) -> dict[str, Compared]:
    """Return what a sidecar found out of Releases' versions itself."""
    return {
        release: Compared(Both(_counts(comparison.old), _counts(comparison.new)), comparison.likeness)
        for release, comparison in comparisons_of(statistics.comparisons).items()
    }


def _counts(outcomes: Outcomes) -> Counts:
    return Counts(
        outcomes.calls,
        outcomes.errors,
        outcomes.input_tokens,
        outcomes.output_tokens,
        outcomes.duration,
        outcomes.first_byte,
        outcomes.output,
        outcomes.filtered,
    )


def _buckets(counted: Mapping[int, int]) -> dict[int, int]:
    return dict(sorted(counted.items())[:MAX_BUCKETS])


def tiers_of(statistics: push_pb2.Statistics) -> tuple[TierStatistics, ...]:
    """Return how each Tier does; what is beyond all reason in number is left out."""
    return tuple(
        TierStatistics(item.tier[:MAX_NAME], item.requests, item.limited, item.errors, item.tokens)
        for item in statistics.tiers[:MAX_VERSIONS]
    )


def statistics_of(statistics: push_pb2.Statistics) -> tuple[VersionStatistics, ...]:
    """Return how each version does; what is beyond all reason in number is left out."""
    return tuple(
        VersionStatistics(
            model=item.model[:MAX_NAME],
            version=item.version[:MAX_NAME],
            calls=item.calls,
            errors=item.errors,
            throttled=item.throttled,
            refused=item.refused,
            abandoned=item.abandoned,
            input_tokens=item.input_tokens,
            output_tokens=item.output_tokens,
            duration=_buckets(item.duration),
            first_byte=_buckets(item.first_byte),
        )
        for item in statistics.versions[:MAX_VERSIONS]
    )
