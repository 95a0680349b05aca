"""Plurals of kinds."""

from control_plane.resources.kinds import KINDS
from control_plane.resources.plurals import KIND_OF


def test_every_kind_has_a_plural() -> None:
    """In the order in which kinds are listed; the table imports none of them."""
    assert list(KIND_OF.values()) == list(KINDS)
