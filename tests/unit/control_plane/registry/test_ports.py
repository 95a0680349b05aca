"""What passes between the registry and its store."""

from dataclasses import replace

from control_plane.registry.ports import DocumentVersion
from control_plane.registry.values import ChangeAction, StoredDocument
from tests.harness.registries import START


def test_a_version_is_a_stored_document_or_its_deletion() -> None:
    """Without content there is none."""
    version = DocumentVersion("Tier", "t", 3, ChangeAction.CREATE, b"{}", START)
    assert version.key == ("Tier", "t")
    assert version.stored() == StoredDocument("Tier", "t", 3, b"{}", START)
    assert replace(version, content=None).stored() is None
