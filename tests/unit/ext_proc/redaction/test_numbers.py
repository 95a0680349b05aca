"""Phone, identity and card numbers."""

from __future__ import annotations

import pytest

from ext_proc.redaction.findings import Finding
from ext_proc.redaction.numbers import is_card, is_id_card, number_findings

CARD = "4111111111111111"


@pytest.mark.parametrize("number", ["110105194912310021", "110105194913310021", "11010519491231002A"])
def test_identity_number_needs_date_and_checksum(number: str) -> None:
    """A wrong check digit or an impossible birth date is no identity number."""
    assert not is_id_card(number)


def test_card_needs_luhn_and_network() -> None:
    """Luhn alone is not enough: the number must lie in a range that a network uses."""
    assert is_card(CARD)
    assert not is_card("4111111111111112")
    assert not is_card("1234567812345670")


@pytest.mark.parametrize("gap", [0, 1, 5, 127, 128, 129, 500])
def test_numbers_far_apart_are_found_at_their_places(gap: int) -> None:
    """Whatever stands between two numbers, and however much."""
    text = f"a 13800138000{'x ' * gap} {CARD} b"
    at = text.index(CARD)
    assert set(number_findings(text)) == {Finding("phone", 2, 13), Finding("card", at, at + 16)}


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("090-2345-6789", id="a Japanese mobile number has no area code of ours"),
        pytest.param("00000000-4111-1111-1111-111111111111", id="UUID"),
        pytest.param(f"{'a' * 100}{CARD}{'b' * 100}", id="a long hexadecimal string"),
        pytest.param("6901234567009", id="an article number whose Luhn digit happens to be right"),
        pytest.param("1 2 3 4 5 6 7 8 9 10 11 12 13", id="a list"),
        pytest.param("2024-11-30 12:00:00.123456", id="a time"),
    ],
)
def test_other_numbers_are_left(text: str) -> None:
    """What has the digits of a number and is none."""
    assert number_findings(text) == []
