"""What a mirror's wish makes of the stored secrets."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from datetime import UTC, datetime

from control_plane.registry.mirrored_secrets import SecretsPlan, plan_secrets
from control_plane.registry.values import SecretName
from control_plane.registry.verdicts import Reason

AT = datetime(2030, 1, 1, tzinfo=UTC)
KNOWN = {
    "same": SecretName("same", ("k",), AT, "kubernetes"),
    "changed": SecretName("changed", ("k", "l"), AT, "kubernetes"),
    "gone": SecretName("gone", ("k",), AT, "kubernetes"),
    "named": SecretName("named", ("k",), AT, "kubernetes"),
    "theirs": SecretName("theirs", ("k",), AT),
}
VALUES = {(item.name, key): b"v" for item in KNOWN.values() for key in item.keys}


def coded(value: bytes) -> dict[str, str]:
    """Return a secret as Kubernetes writes it."""
    return {"k": base64.b64encode(value).decode()}


def plan(wanted: Mapping[str, Mapping[str, str]]) -> SecretsPlan:
    """Plan, with one secret that a Backend names."""
    return plan_secrets("kubernetes", wanted, KNOWN, VALUES, {"named": "Backend/b"}.get)


def test_only_what_differs_is_stored() -> None:
    """And what is neither wanted nor named goes; nothing of others does."""
    found = plan({"same": coded(b"v"), "changed": coded(b"v"), "new": coded(b"x")})
    assert found.stored == {"changed": {"k": "v"}, "new": {"k": "x"}}
    assert found.deleted == ("gone",)
    assert [(kept.name, kept.message) for kept in found.kept] == [("named", "Backend/b still names it")]
    assert found.names == ("changed", "gone", "new")
    assert found.told() == "secrets stored: changed, new; secrets deleted: gone"


def test_a_line_end_is_of_no_key() -> None:
    """`echo key | base64` leaves one behind."""
    assert plan({"same": coded(b"v\r\n"), "changed": coded(b"w\n")}).stored == {"changed": {"k": "w"}}


def test_what_cannot_be_stored_is_refused_by_itself() -> None:
    """It stays as it was, and no value is told."""
    bad = {
        "theirs": coded(b"v"),
        "same": {"k": "no base64: sk-marker"},
        "changed": coded(b"\xff"),
        "gone": coded(b"two\nlines"),
        "a/b": coded(b"v"),
        "named": {},
    }
    found = plan(bad)
    assert (found.stored, found.deleted, found.kept) == ({}, (), ())
    reasons = {item.name: item.reason for item in found.refused}
    assert reasons == {**dict.fromkeys(bad, Reason.INVALID), "theirs": Reason.CONFLICT}
    assert "sk-marker" not in str(found)
