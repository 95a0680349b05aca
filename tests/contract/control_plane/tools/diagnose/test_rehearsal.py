"""The call to ourselves."""

from control_plane.tools.diagnose.rehearsal import rehearse


async def test_it_is_answered() -> None:
    """And leaves nothing behind that a second one would meet."""
    assert await rehearse()
    assert await rehearse()
