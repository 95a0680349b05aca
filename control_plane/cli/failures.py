"""How a command fails: one sentence that says what to do."""

from __future__ import annotations


class CommandFailed(Exception):
    """A command cannot go on. The message is for the user; `status` is the exit status."""

    def __init__(self, message: str, status: int = 1) -> None:
        super().__init__(message)
        self.status = status
