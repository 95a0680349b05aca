"""What requests and replies have in common, whatever the wire."""

from __future__ import annotations

from control_plane.tools.provider.wire.messages import has_length


def test_has_length() -> None:
    """A content-length is found in any spelling."""
    assert has_length((("a", "1"), ("Content-Length", "2")))
    assert not has_length((("a", "1"),))
