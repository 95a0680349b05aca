"""What a process leaves on disk when it crashes: nothing, since its memory holds keys and prompts."""

from __future__ import annotations

import resource


def leave_no_core() -> None:
    """Have this process and all that it starts write no core file, unless somebody raises its limit again."""
    _, hard = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (0, hard))
