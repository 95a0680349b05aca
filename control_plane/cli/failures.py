"""How a command fails: one sentence that says what to do."""

from __future__ import annotations


class CommandFailed(Exception):
    """A command cannot go on (exit status 1). The message is for the user and says what to do."""
