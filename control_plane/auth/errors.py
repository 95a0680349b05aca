"""Why a caller is turned away before anything is looked at."""

from __future__ import annotations


class TokenRefusedError(Exception):
    """The token is wrong, expired or revoked; which of them is nobody's business."""


class TooManyFailuresError(Exception):
    """The source has shown too many wrong tokens; it may try again in `retry_after_s` seconds."""

    def __init__(self, retry_after_s: int) -> None:
        super().__init__(f"too many wrong tokens; again in {retry_after_s} s")
        self.retry_after_s = retry_after_s
