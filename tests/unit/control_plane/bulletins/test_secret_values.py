"""Where secrets of webhooks are found."""

from __future__ import annotations

from pathlib import Path

import pytest

from control_plane.bulletins.secret_values import SecretUnknownError, secret_value
from control_plane.resources.kinds.backend import Credentials


def credentials(**way: object) -> Credentials:
    """Return what a document says."""
    return Credentials.model_validate(way)


def test_each_way_leads_to_its_value(tmp_path: Path) -> None:
    """A variable, a file, a stored secret."""
    (tmp_path / "key").write_bytes(b"from file\n")
    environment, stored = {"A": "from env"}, {("s", "k"): b"stored"}
    file = str(tmp_path / "key")
    assert secret_value(credentials(env="A"), environment, stored) == b"from env"
    assert secret_value(credentials(file=file), environment, stored) == b"from file\n"
    reference = {"name": "s", "key": "k"}
    assert secret_value(credentials(secretRef=reference), environment, stored) == b"stored"


@pytest.mark.parametrize(
    ("way", "words"),
    [
        ({"env": "A"}, "variable A is not there"),
        ({"file": "/none/such"}, "the file of its secret is not there"),
        ({"file": "/dev/zero"}, "the file of its secret is not there"),
        ({"secretRef": {"name": "s", "key": "k"}}, "the stored secret s, key k is not there"),
    ],
)
def test_what_is_not_there_is_said(way: dict[str, object], words: str) -> None:
    """An empty value is none: it would sign nothing."""
    with pytest.raises(SecretUnknownError, match=words):
        secret_value(credentials(**way), {"A": " "}, {})
