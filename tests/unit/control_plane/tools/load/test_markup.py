"""Pieces of pages."""

from control_plane.tools.load.markup import cards, figure, page, style, table, warned


def test_a_page_stands_alone() -> None:
    """It loads nothing and runs nothing, and knows light and dark."""
    made = page("T & T", "told", ["<p>body</p>"])
    assert made.startswith("<!doctype html>")
    assert "<h1>T &amp; T</h1>" in made
    assert style() in made
    assert "prefers-color-scheme: dark" in made
    assert all(word not in made for word in ("<script", "http://", "https://", "@import", "url("))


def test_what_comes_from_outside_is_text() -> None:
    """In every piece."""
    bad = "<b onclick=x>"
    for made in (cards([(bad, bad)]), table([bad], [[bad]]), figure("", bad), warned([bad])):
        assert bad not in made
        assert "&lt;b onclick=x&gt;" in made


def test_rows_can_be_marked() -> None:
    """By number."""
    assert table(["h"], [["a"], ["b"]], {1: "best"}).count('<tr class="best"><td>b') == 1
