"""What the probes bring home."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from control_plane.tools.diagnose.probes import Gap, Probe
from control_plane.tools.diagnose.sample import Sample


@dataclass(slots=True)
class Taken:
    """All that was measured.

    `temperatures` stand beside the samples of that probe; `gaps` say why a probe has none. `failures` are
    tries by reason, `lost_ms` what calls lost that had to be tried again, `own_ms` the
    processor time that this program itself took for a burst.
    """

    samples: dict[Probe, list[Sample]] = field(default_factory=lambda: {probe: [] for probe in Probe})
    temperatures: list[float] = field(default_factory=list)
    gaps: dict[Probe, Gap] = field(default_factory=dict)
    failures: Mapping[str, int] = field(default_factory=dict)
    lost_ms: list[float] = field(default_factory=list)
    own_ms: dict[Probe, float] = field(default_factory=dict)
