"""YAML as Kubernetes reads it."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from control_plane.webhook.scalars import Reader, write_yaml

# libyaml is what Go's YAML comes from.
READERS: list[Any] = [Reader, yaml.SafeLoader, yaml.CSafeLoader]
ODD = "\x85\u2028\u2029\x80\x9f\x7f\0\x1b\r\n\t \ufeff\ufffe\U0010ffff" + "#:-?|>%@`'\"\\&*!{}[],=<~"
WORDS = st.lists(st.sampled_from(["a", "1e3", "0o7", ".5", "_", " ", "\n", "\x85", ": ", " #", "yes", "东"]))
TEXTS = st.text(st.sampled_from(ODD), max_size=12) | st.text(max_size=60) | WORDS.map("".join)


@given(TEXTS, TEXTS)
@example("\x85", "a\x85b")
@example("a\u2028\u2029", "  a\n\x85\n")
def test_whatever_text_is_read_back_as_it_was(name: str, text: str) -> None:
    """As a value, in a list, below another, and as a name, by every reader."""
    value = {"text": text, "list": [text, {"in": text}], "names": {name: text}, "end": 1}
    written = write_yaml(value)
    for reader in READERS:
        assert yaml.load(written, reader) == value


@given(
    st.recursive(st.none() | st.booleans() | st.integers() | TEXTS, lambda below: st.lists(below, max_size=3))
)
def test_other_values_are_read_back_too(value: Any) -> None:
    """Nothing but texts are taken for texts."""
    assert yaml.load(write_yaml(value), Reader) == value


@pytest.mark.parametrize("character", ["\x85", "\u2028", "\u2029", "\x80", "\x9f", "\ufeff"])
def test_what_ends_a_line_or_cannot_be_seen_is_escaped(character: str) -> None:
    """In a text of several lines, too."""
    for text in (character, f"a{character}b", f"a\n{character}\n"):
        assert character not in write_yaml({"a": text})


def test_other_scripts_and_lines_can_be_read() -> None:
    """They are written as they are, lines under each other."""
    assert write_yaml({"东": "é", "lines": "a\nb\n"}) == "东: é\nlines: |\n  a\n  b\n"


def test_what_is_shared_is_written_out() -> None:
    """Without anchors."""
    shared = ["a"]
    assert write_yaml([shared, shared]) == "- - a\n- - a\n"
