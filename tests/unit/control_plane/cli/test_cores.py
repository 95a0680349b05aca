"""What is left of a process that crashes."""

from __future__ import annotations

import resource

from control_plane.cli.cores import leave_no_core


def test_no_core_is_written_unless_the_limit_is_raised_again() -> None:
    """The soft limit is 0, the hard one is the operator's."""
    before = resource.getrlimit(resource.RLIMIT_CORE)
    try:
        leave_no_core()
        assert resource.getrlimit(resource.RLIMIT_CORE) == (0, before[1])
    finally:
        resource.setrlimit(resource.RLIMIT_CORE, before)
