"""What one answered call tells."""

from tests.unit.control_plane.tools.diagnose.samples import fresh, kept


def test_a_call_that_opened_its_connection() -> None:
    """Is told by the time of TCP."""
    assert fresh(20).opened
    assert not kept(20).opened
