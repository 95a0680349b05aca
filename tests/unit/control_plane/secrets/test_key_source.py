"""Where keys come from."""

import base64
import os
import stat
from pathlib import Path

import pytest

from control_plane.registry.errors import SecretKeyError
from control_plane.secrets.key_source import GivenKeys, KeyFile, key_source, parse_keys

ONE = base64.b64encode(bytes(range(32))).decode()
TWO = base64.urlsafe_b64encode(b"\xff" * 32).decode()


def test_keys_are_read_in_either_alphabet_of_base64() -> None:
    """As openssl and as Python write them, one a line or with commas between."""
    standard = base64.b64encode(b"\xff" * 32).decode()
    assert parse_keys(f"{standard}\n{ONE}\n", "x") == [TWO.encode(), ONE.encode()]
    assert GivenKeys(f"{TWO}, {ONE}").newest_first() == [TWO.encode(), ONE.encode()]


@pytest.mark.parametrize("text", ["", " ", "hunter2", ONE[:-4], ONE + ONE, "ключ", ONE + ",hunter2"])
def test_what_is_no_key_is_refused_and_not_quoted(text: str) -> None:
    """The sentence says how one is made."""
    with pytest.raises(SecretKeyError, match="openssl rand -base64 32") as error:
        GivenKeys(text)
    assert "hunter2" not in str(error.value)
    assert ONE not in str(error.value)


def test_a_file_is_made_at_the_first_use_for_its_owner_alone(tmp_path: Path) -> None:
    """And kept from then on."""
    path = tmp_path / "data" / "secret.key"
    keys = KeyFile(path, os.urandom).newest_first()
    assert len(keys) == 1
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert KeyFile(path, os.urandom).newest_first() == keys


def test_a_file_is_rotated_in_two_steps(tmp_path: Path) -> None:
    """In between both keys are there; nothing else is left in the folder."""
    source = KeyFile(tmp_path / "secret.key", os.urandom)
    (old,) = source.newest_first()
    source.renew()
    new, second = source.newest_first()
    assert second == old != new
    source.retire()
    assert source.newest_first() == [new]
    assert [file.name for file in tmp_path.iterdir()] == ["secret.key"]


def test_given_keys_are_left_alone() -> None:
    """They are the operator's to rotate."""
    source = GivenKeys(ONE)
    source.renew()
    source.retire()
    assert source.newest_first() == [ONE.encode()]


def test_a_file_that_cannot_be_used_is_told(tmp_path: Path) -> None:
    """With its path and the way around."""
    (tmp_path / "file").write_text("")
    with pytest.raises(SecretKeyError, match="OUTRIGGER_SECRET_KEY"):
        KeyFile(tmp_path / "file" / "secret.key", os.urandom).newest_first()
    (tmp_path / "secret.key").write_text("nonsense")
    with pytest.raises(SecretKeyError, match=r"secret\.key holds something that is no key"):
        KeyFile(tmp_path / "secret.key", os.urandom).newest_first()


def test_the_variable_beats_the_file(tmp_path: Path) -> None:
    """Which is then not made."""
    assert key_source(ONE, tmp_path, os.urandom).newest_first() == [ONE.encode()]
    assert not list(tmp_path.iterdir())
    key_source(None, tmp_path, os.urandom).newest_first()
    assert [file.name for file in tmp_path.iterdir()] == ["secret.key"]
