"""That every check holds for its examples and what is near them, and that a finding is kept."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.soak.fuzz import LONGEST, NAMES, _holds, mutated
from tests.soak.fuzz_targets import TARGETS


def test_the_names_are_those_of_the_targets() -> None:
    """The command knows them without loading what they need."""
    assert set(NAMES) == set(TARGETS)


@pytest.mark.parametrize("name", NAMES)
def test_examples_hold_and_what_is_near_them(name: str) -> None:
    """A few of what is tried for minutes elsewhere."""
    target, chance = TARGETS[name], random.Random(name)
    for example in target.examples:
        target.check(example)
        for _ in range(4):
            target.check(mutated(example, target.words, chance))


def test_mutations_are_bounded() -> None:
    """And other than what they began with."""
    chance = random.Random(1)
    made = {mutated(b"a" * LONGEST, (b"word",), chance) for _ in range(50)}
    assert len(made) > 25
    assert max(map(len, made)) <= LONGEST


def test_what_makes_a_parser_fail_is_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As a file, to be tried again."""

    def refuse(data: bytes) -> None:
        assert b"x" not in data

    assert _holds(refuse, b"fine", tmp_path)
    assert not _holds(refuse, b"axe", tmp_path)
    (kept,) = tmp_path.iterdir()
    assert kept.read_bytes() == b"axe"
    assert str(kept) in capsys.readouterr().out
