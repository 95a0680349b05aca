"""What a processor itself finds out of a Release's two versions: values that add up (pure).

The access log tells how calls of callers ended. Here is what it cannot tell: calls that were made for nobody,
and whether two answers to one question say the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Final

Histogram = Mapping[int, int]


@dataclass(frozen=True, slots=True)
class Outcomes:
    """Calls of one version. Times and lengths are of those that succeeded, in push.proto's buckets."""

    calls: int = 0
    errors: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    filtered: int = 0
    duration: Histogram = field(default_factory=dict)
    first_byte: Histogram = field(default_factory=dict)
    output: Histogram = field(default_factory=dict)

    def __add__(self, other: Outcomes) -> Outcomes:
        return Outcomes(
            self.calls + other.calls,
            self.errors + other.errors,
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.filtered + other.filtered,
            _merged(self.duration, other.duration),
            _merged(self.first_byte, other.first_byte),
            _merged(self.output, other.output),
        )


@dataclass(frozen=True, slots=True)
class Likeness:
    """How alike two versions' answers are.

    Of calls that both were asked: `compared` pairs of answers, of which `agreed` say about the same, with the
    sum of their similarities in thousandths and of their lengths in characters; `other_status` pairs of calls
    ended in another class of status, `other_finish` of the compared for another reason. Of calls whose
    question the other version had answered before: `cache_compared`, of which `cache_disagreed`.
    """

    compared: int = 0
    agreed: int = 0
    similarity_milli: int = 0
    old_chars: int = 0
    new_chars: int = 0
    other_status: int = 0
    other_finish: int = 0
    cache_compared: int = 0
    cache_disagreed: int = 0

    def __add__(self, other: Likeness) -> Likeness:
        return Likeness(*(mine + theirs for mine, theirs in zip(self.numbers, other.numbers, strict=True)))

    def __bool__(self) -> bool:
        return any(self.numbers)

    @property
    def numbers(self) -> tuple[int, ...]:
        """All of them, in their order."""
        return tuple(getattr(self, name) for name in LIKENESS)

    def since(self, earlier: Likeness) -> Likeness:
        """Return what came to `earlier` to make it this; nothing is negative."""
        pairs = zip(self.numbers, earlier.numbers, strict=True)
        return Likeness(*(max(now - before, 0) for now, before in pairs))


NO_LIKENESS: Final = Likeness()
LIKENESS: Final = tuple(item.name for item in fields(Likeness))
"""The names of its numbers."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two versions of a Model on the same questions."""

    old: Outcomes = Outcomes()
    new: Outcomes = Outcomes()
    likeness: Likeness = Likeness()

    def __add__(self, other: Comparison) -> Comparison:
        return Comparison(self.old + other.old, self.new + other.new, self.likeness + other.likeness)


def merged_comparisons(parts: Iterable[Mapping[str, Comparison]]) -> dict[str, Comparison]:
    """Return the sum of `parts`, by Release."""
    total: dict[str, Comparison] = {}
    for part in parts:
        for release, comparison in part.items():
            total[release] = total.get(release, Comparison()) + comparison
    return total


def _merged(one: Histogram, other: Histogram) -> Histogram:
    if not one or not other:
        return one or other
    total = dict(one)
    for bucket, count in other.items():
        total[bucket] = total.get(bucket, 0) + count
    return total
