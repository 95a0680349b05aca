"""Fallbacks that never stand in."""

import pytest

from control_plane.resources.documents import check_documents
from tests.harness.registries import backend, model, raw

KEY = {"env": "KEY"}


@pytest.mark.parametrize(
    ("mine", "theirs", "is_told"),
    [(KEY, None, True), (KEY, KEY, False), (None, KEY, False), (None, None, False)],
)
def test_a_fallback_without_credentials_for_one_with_is_told(
    mine: dict[str, str] | None, theirs: dict[str, str] | None, is_told: bool
) -> None:
    """With Model and both Backends: the caller's key would go where it was not meant to."""
    found = check_documents(
        [
            backend("paid", credentials=mine),
            backend("free", credentials=theirs),
            model("m", "paid", fallbacks=["spare"]),
            model("spare", "free"),
        ]
    ).notices
    assert [(notice.document, notice.field) for notice in found] == (
        [("Model/m", "spec.fallbacks[0]")] if is_told else []
    )
    assert all(name in found[0].message for name in ('"spare"', '"paid"', '"free"') if is_told)


def test_one_version_is_enough_and_is_told_once() -> None:
    """Whichever of a Model's versions is barred from whichever of the other's."""
    both = [{"name": name, "backend": name} for name in ("free", "paid")]
    found = check_documents(
        [
            backend("paid", credentials=KEY),
            backend("free"),
            raw("Model", "m", versions=both, fallbacks=["spare", "paid-spare"]),
            raw("Model", "spare", versions=both),
            model("paid-spare", "paid"),
        ]
    ).notices
    assert [notice.field for notice in found] == ["spec.fallbacks[0]"]
