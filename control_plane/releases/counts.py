"""What one version did, as numbers that add up; and what two did in the same interval (pure)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from control_plane.releases.histograms import Histogram, merged, minus
from ext_proc.contract.comparisons import NO_LIKENESS, Likeness


@dataclass(frozen=True, slots=True)
class Counts:
    """Calls of one version.

    `errors` are those that its callers did not get an answer from: failures of the provider, refusals and
    what a fallback had to answer. Calls that the caller left are in none of the others. Times are in
    milliseconds, of calls that succeeded; `first_byte` of streams, `output` in tokens. `filtered`
    are answers that a filter cut short or the model refused.
    """

    calls: int = 0
    errors: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    duration: Histogram = field(default_factory=dict)
    first_byte: Histogram = field(default_factory=dict)
    output: Histogram = field(default_factory=dict)
    filtered: int = 0

    @property
    def error_rate(self) -> float:
        """Errors by calls, 0 without any."""
        return self.errors / self.calls if self.calls else 0.0

    def __add__(self, other: Counts) -> Counts:
        return Counts(
            self.calls + other.calls,
            self.errors + other.errors,
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            merged(self.duration, other.duration),
            merged(self.first_byte, other.first_byte),
            merged(self.output, other.output),
            self.filtered + other.filtered,
        )

    def since(self, earlier: Counts) -> Counts:
        """Return what came to `earlier` to make it this; nothing is negative."""
        return Counts(
            max(self.calls - earlier.calls, 0),
            max(self.errors - earlier.errors, 0),
            max(self.input_tokens - earlier.input_tokens, 0),
            max(self.output_tokens - earlier.output_tokens, 0),
            minus(self.duration, earlier.duration),
            minus(self.first_byte, earlier.first_byte),
            minus(self.output, earlier.output),
            max(self.filtered - earlier.filtered, 0),
        )


NOTHING: Final = Counts()


@dataclass(frozen=True, slots=True)
class Both:
    """What the old and the new version did at the same time."""

    old: Counts = NOTHING
    new: Counts = NOTHING

    def __add__(self, other: Both) -> Both:
        return Both(self.old + other.old, self.new + other.new)

    def __bool__(self) -> bool:
        return bool(self.old.calls or self.new.calls)

    def since(self, earlier: Both) -> Both:
        """Return what came to `earlier` to make it this; nothing is negative."""
        return Both(self.old.since(earlier.old), self.new.since(earlier.new))


NEITHER: Final = Both()


@dataclass(frozen=True, slots=True)
class Compared:
    """What sidecars found out of the two versions: on calls that both were asked, and in the cache."""

    shadowed: Both = NEITHER
    likeness: Likeness = NO_LIKENESS

    def __add__(self, other: Compared) -> Compared:
        return Compared(self.shadowed + other.shadowed, self.likeness + other.likeness)

    def __bool__(self) -> bool:
        return bool(self.shadowed) or bool(self.likeness)

    def since(self, earlier: Compared) -> Compared:
        """Return what came to `earlier` to make it this; nothing is negative."""
        return Compared(self.shadowed.since(earlier.shadowed), self.likeness.since(earlier.likeness))


NOT_COMPARED: Final = Compared()
