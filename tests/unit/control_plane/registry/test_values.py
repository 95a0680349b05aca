"""The registry's values."""

from control_plane.registry.values import ChangeAction, DocumentChange, StoredDocument
from tests.harness.registries import START


def test_a_stored_document_has_a_tag_and_a_value() -> None:
    """The tag is quoted, as the header is; the value is a fresh copy."""
    stored = StoredDocument("Tier", "t", 12, b'{"kind":"Tier"}', START)
    assert (stored.etag, stored.key) == ('"r12"', ("Tier", "t"))
    stored.value["kind"] = "changed"
    assert stored.value == {"kind": "Tier"}


def test_a_change_names_its_document() -> None:
    """As messages do."""
    assert DocumentChange("Tier", "t", ChangeAction.CREATE).document == "Tier/t"
