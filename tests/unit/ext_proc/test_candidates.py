"""Who may answer an exchange."""

from __future__ import annotations

from ext_proc.candidates import Candidate, stand_ins
from ext_proc.contract.snapshot import Backend, CredentialRef, Model, Snapshot, Version

KEY = CredentialRef("env", "KEY")
OPEN, LOCKED = Backend("open", "http://h/v1"), Backend("locked", "http://h/v1", credential=KEY)
SPARE = Model("spare", (Version("v", "open", "spare"),))
OTHER = Model("other", (Version("v", "locked", "other"),))
FIRST = Model("first", (Version("v", "locked", "first"),), fallbacks=("gone", "spare", "other"))
POLICY = Snapshot(
    "r1", backends={"open": OPEN, "locked": LOCKED}, models={"first": FIRST, "spare": SPARE, "other": OTHER}
)


def first_version(model: Model) -> Version:
    """Choose the first."""
    return model.versions[0]


def test_fallbacks_stand_in_in_order() -> None:
    """Those that are there, each with the version that was chosen of it."""
    found = list(stand_ins(POLICY, FIRST, OPEN, first_version))
    assert found == [
        Candidate(SPARE, SPARE.versions[0], OPEN),
        Candidate(OTHER, OTHER.versions[0], LOCKED),
    ]


def test_a_backend_without_a_key_never_stands_in_for_one_with_a_key() -> None:
    """The caller's own key would go to another provider."""
    assert [one.backend for one in stand_ins(POLICY, FIRST, LOCKED, first_version)] == [LOCKED]
