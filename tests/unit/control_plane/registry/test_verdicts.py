"""What a mirror is told."""

from control_plane.registry.verdicts import Judgement, Reason


def test_a_judgement_is_of_a_document() -> None:
    """Accepted, unless it says otherwise."""
    found = Judgement("Tier", "gold")
    assert (found.key, found.reason, found.message) == (("Tier", "gold"), Reason.ACCEPTED, "")
