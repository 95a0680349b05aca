"""Digests of Consumer keys."""

from __future__ import annotations

import pytest

from ext_proc.contract.keys import SALT_MAX_BYTES, key_digest


def test_key_and_salt_decide_the_digest() -> None:
    """Equal inputs have equal digests of 64 hex digits; another key or salt has another."""
    digests = {key_digest(key, salt) for key in ("ork_a", "ork_b") for salt in ("", "00", "01")}
    assert len(digests) == 6
    assert key_digest("ork_a", "00") in digests
    assert all(len(digest) == 64 and int(digest, 16) for digest in digests)


@pytest.mark.parametrize("key", ["", "ork_\x00", "ork_" + "x" * 10_000, "ork_钥匙", "ork_\udc80"])
def test_any_text_that_a_caller_may_send_has_a_digest(key: str) -> None:
    """No key, however odd, is an error."""
    assert len(key_digest(key, "ab" * SALT_MAX_BYTES)) == 64


@pytest.mark.parametrize("salt", ["0", "zz", "00" * (SALT_MAX_BYTES + 1)])
def test_a_salt_that_cannot_be_used_is_an_error(salt: str) -> None:
    """It is the installation's mistake and must not pass for another salt."""
    with pytest.raises(ValueError, match=r".+"):
        key_digest("ork_a", salt)
