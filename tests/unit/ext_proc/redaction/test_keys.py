"""Keys by their beginnings and by the names before them."""

from __future__ import annotations

import pytest

from ext_proc.redaction.keys import key_spans


def keys(text: str, *, words: bool = True) -> list[str]:
    """Return what is found."""
    return [text[start:end] for start, end in key_spans(text, words=words)]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("sk-abc123 AKIAIOSFODNN7EXAMPLE ork_a1b2", ["sk-abc123", "AKIAIOSFODNN7EXAMPLE", "ork_a1b2"]),
        ("X-API-Key: abcdef123", ["abcdef123"]),
        (
            "ghp_abcdefghijklmnop1234 sk_live_abcdefghijklmnop",
            ["ghp_abcdefghijklmnop1234", "sk_live_abcdefghijklmnop"],
        ),
        (
            "-----BEGIN PRIVATE KEY-----\nMII\n-----END PRIVATE KEY----- x",
            ["-----BEGIN PRIVATE KEY-----\nMII\n-----END PRIVATE KEY-----"],
        ),
        ("\u0130 Bearer abc123", ["abc123"]),
        ("the key to a monkey's secret is a token", []),
    ],
)
def test_keys_are_found(text: str, found: list[str]) -> None:
    """In order, each whole, whatever letters stand before."""
    assert keys(text) == found


@pytest.mark.parametrize("text", ["bearer instruments pay", "a basic understanding", "Basic infrastructure"])
def test_prose_may_be_left_alone(text: str) -> None:
    """A word behind "bearer" or "basic" is a key only to who would rather hide too much."""
    assert keys(text)
    assert not keys(text, words=False)


@pytest.mark.parametrize("text", ["Bearer abc123", "authorization: bearer secretword", "Basic dXNlcjpwYXNz"])
def test_keys_are_no_prose(text: str) -> None:
    """A digit, a capital within, or the header's name make it a key to everybody."""
    assert keys(text, words=False) == [text.rsplit(maxsplit=1)[-1]]
