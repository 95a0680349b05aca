"""Why a caller is turned away."""

from control_plane.auth.errors import TooManyFailuresError


def test_how_long_to_wait_is_told() -> None:
    """As a number, and in the text."""
    error = TooManyFailuresError(7)
    assert error.retry_after_s == 7
    assert "7 s" in str(error)
