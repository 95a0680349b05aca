"""Text for a terminal."""

from control_plane.cli.text import counted, enumerated, printable


def test_printable_text_stays_as_it_is() -> None:
    """Only what drives terminals is escaped; tabs and other scripts are text."""
    assert printable("東京 café\tx") == "東京 café\tx"
    assert printable("a\x1b\r\x9b") == r"a\x1b\r\x9b"


def test_one_has_no_plural() -> None:
    """And nought has."""
    assert [counted(count, "field") for count in (0, 1, 2)] == ["0 fields", "1 field", "2 fields"]


def test_items_of_a_sentence() -> None:
    """With commas, the last one with "and"."""
    assert [enumerated("abc"[:count]) for count in range(4)] == ["", "a", "a and b", "a, b and c"]
