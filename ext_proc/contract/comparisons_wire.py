"""What is found out of two versions, to the push protocol's messages and back (pure).

Protocol: push.proto.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Final

from ext_proc.contract import push_pb2
from ext_proc.contract.comparisons import LIKENESS, Comparison, Histogram, Likeness, Outcomes

MAX_RELEASES: Final = 500
MAX_BUCKETS: Final = 300
_MAX_NAME: Final = 253


def comparison_messages(comparisons: Mapping[str, Comparison]) -> list[push_pb2.Comparison]:
    """Return the messages that tell `comparisons`, by Release."""
    return [
        push_pb2.Comparison(
            release=release,
            old=_side(comparison.old),
            new=_side(comparison.new),
            **dict(zip(LIKENESS, comparison.likeness.numbers, strict=True)),
        )
        for release, comparison in sorted(comparisons.items())[:MAX_RELEASES]
    ]


def comparisons_of(messages: Iterable[push_pb2.Comparison]) -> dict[str, Comparison]:
    """Return what `messages` tell; what is beyond all reason in number is left out."""
    return {
        message.release[:_MAX_NAME]: Comparison(
            _outcomes(message.old),
            _outcomes(message.new),
            Likeness(*(getattr(message, name) for name in LIKENESS)),
        )
        for message in islice(messages, MAX_RELEASES)
    }


def _side(outcomes: Outcomes) -> push_pb2.VersionStatistics:
    return push_pb2.VersionStatistics(
        calls=outcomes.calls,
        errors=outcomes.errors,
        input_tokens=outcomes.input_tokens,
        output_tokens=outcomes.output_tokens,
        filtered=outcomes.filtered,
        duration=outcomes.duration,
        first_byte=outcomes.first_byte,
        output=outcomes.output,
    )


def _outcomes(message: push_pb2.VersionStatistics) -> Outcomes:
    return Outcomes(
        message.calls,
        message.errors,
        message.input_tokens,
        message.output_tokens,
        message.filtered,
        _buckets(message.duration),
        _buckets(message.first_byte),
        _buckets(message.output),
    )


def _buckets(counted: Histogram) -> dict[int, int]:
    return dict(sorted(counted.items())[:MAX_BUCKETS])
