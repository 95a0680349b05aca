"""Proofs of the control plane: good for a while, of one salt, and of nothing else."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ext_proc.contract.keys import key_digest
from ext_proc.contract.proofs import GOOD_FOR_S, MAX_CHARS, make_proof, proven

SALT = "ab" * 32
NOW_S = 1_700_000_000.0
UNTIL_S = int(NOW_S) + GOOD_FOR_S
GOOD = make_proof(SALT, UNTIL_S, "0f" * 12)


def test_a_proof_is_good_until_its_time() -> None:
    """It says the number it was made with; afterwards it says nothing."""
    assert proven(SALT, GOOD, NOW_S) == "0f" * 12
    assert proven(SALT, GOOD, UNTIL_S) == ""


@pytest.mark.parametrize(
    ("salt", "proof"),
    [
        ("", GOOD),
        ("cd" * 32, GOOD),
        (SALT, ""),
        (SALT, GOOD[:-1]),
        (SALT, f"{GOOD}0"),
        (SALT, GOOD.replace("0f", "1f", 1)),
        (SALT, make_proof(SALT, UNTIL_S + 10_000, "0f")),
        (SALT, make_proof(SALT, UNTIL_S, "0" * MAX_CHARS)),
        (SALT, f"{UNTIL_S}.0f.{key_digest(f'{UNTIL_S}.0f', SALT)}"),
        (SALT, make_proof(SALT, UNTIL_S, "0f").replace(str(UNTIL_S), f"٣{UNTIL_S}")),
    ],
    ids=[
        *("no salt", "another salt", "nothing", "cut", "longer", "another number", "far too long"),
        *("huge", "a key's digest", "odd digits"),
    ],
)
def test_anything_else_is_no_proof(salt: str, proof: str) -> None:
    """Whatever was changed about it."""
    assert proven(salt, proof, NOW_S) == ""


def test_without_a_salt_none_is_made() -> None:
    """Everybody could make the same."""
    assert make_proof("", UNTIL_S, "0f") == ""


@given(st.text(max_size=60))
def test_whatever_callers_write_is_no_proof(text: str) -> None:
    """And breaks nothing."""
    assert proven(SALT, text, NOW_S) == ""
