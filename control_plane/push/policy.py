"""What is pushed: the policy of one revision, as whoever publishes it hands it over."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field

from ext_proc.contract.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Policy:
    """Everything in force at one revision.

    Attributes:
        revision: grows with every change.
        compile: from a workload's name to its snapshot (pure), of this revision.
        secrets: the stored provider keys, by Secret name and key. A sidecar is given those that its
            Backends name, never all.
        alike: from a workload's name to something that is equal for workloads that are to obey the same; of
            each such kind one is compiled. By default each workload is a kind of its own.
    """

    revision: int
    compile: Callable[[str], Snapshot]
    secrets: Mapping[tuple[str, str], bytes] = field(default_factory=dict, repr=False)
    alike: Callable[[str], Hashable] = str
