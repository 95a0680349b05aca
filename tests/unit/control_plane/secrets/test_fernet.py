"""Sealed values."""

import os
from pathlib import Path

import pytest

from control_plane.registry.errors import SecretKeyError
from control_plane.secrets.fernet import FernetSealer
from control_plane.secrets.key_source import GivenKeys, KeyFile
from tests.unit.control_plane.secrets.test_key_source import ONE, TWO


@pytest.mark.parametrize("value", [b"sk-1", b"", bytes(range(256))])
def test_what_is_sealed_opens_under_its_name(value: bytes) -> None:
    """Any bytes, unreadable in between, other each time."""
    sealer = FernetSealer(GivenKeys(ONE))
    sealed = sealer.seal("openai", "key", value)
    assert sealer.unseal("openai", "key", sealed) == value
    assert sealer.seal("openai", "key", value) != sealed
    assert b"sk-1" not in sealed


def test_a_value_under_another_name_or_key_does_not_open() -> None:
    """Whoever can write the database cannot have a key sent to another provider."""
    sealer = FernetSealer(GivenKeys(ONE))
    sealed = sealer.seal("openai", "key", b"sk-1")
    for name, key in (("other", "key"), ("openai", "other")):
        with pytest.raises(SecretKeyError, match="sealed for another"):
            sealer.unseal(name, key, sealed)


def test_another_key_is_told_in_a_sentence() -> None:
    """It names neither key nor value."""
    sealed = FernetSealer(GivenKeys(ONE)).seal("s", "k", b"sk-1")
    with pytest.raises(SecretKeyError, match="encrypted with another key") as error:
        FernetSealer(GivenKeys(TWO)).unseal("s", "k", sealed)
    assert ONE not in str(error.value)
    assert TWO not in str(error.value)


def test_old_keys_open_and_the_newest_seals() -> None:
    """How an operator rotates: put the new one in front, seal again, take the old one out."""
    old = FernetSealer(GivenKeys(ONE)).seal("s", "k", b"v")
    both = FernetSealer(GivenKeys(f"{TWO},{ONE}"))
    assert both.unseal("s", "k", old) == b"v"
    assert FernetSealer(GivenKeys(TWO)).unseal("s", "k", both.seal("s", "k", b"v")) == b"v"


def test_a_file_that_another_process_rotated_is_read_again(tmp_path: Path) -> None:
    """Without a restart."""
    path = tmp_path / "secret.key"
    first, second = (FernetSealer(KeyFile(path, os.urandom)) for _ in range(2))
    first.renew()
    first.retire()
    assert second.unseal("s", "k", first.seal("s", "k", b"v")) == b"v"
