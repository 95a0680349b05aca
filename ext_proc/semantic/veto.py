"""What tells two questions apart however alike they sound (pure).

Similarity of meaning is blind to just these: a number, a name, a `not`, the way back. A veto costs a hit at
most; what none of them sees is left to the evidence.
"""

from __future__ import annotations

from enum import StrEnum
from itertools import pairwise

from ext_proc.semantic.marks import Marks, is_han


class Veto(StrEnum):
    """Why two texts do not mean the same. A closed set."""

    LANGUAGE = "language"
    NUMBER = "number"
    NAME = "name"
    QUOTE = "quote"
    NEGATION = "negation"
    OPPOSITE = "opposite"
    DIRECTION = "direction"
    SUBSTITUTION = "substitution"


def veto(one: Marks, other: Marks) -> Veto | None:
    """Return what tells the texts apart; None where nothing is seen. Symmetric."""
    if one.script != other.script or (one.language and other.language and one.language != other.language):
        return Veto.LANGUAGE
    if one.numbers != other.numbers or one.times != other.times:
        return Veto.NUMBER
    if one.quoted != other.quoted:
        return Veto.QUOTE
    if one.negations != other.negations:
        return Veto.NEGATION
    names = one.names | other.names
    # In their order: whoever asks from Paris to Rome does not ask from Rome to Paris.
    if names and [w for w in one.words if w in names] != [w for w in other.words if w in names]:
        return Veto.NAME
    if any(-side in other.opposites for side in one.opposites):
        return Veto.OPPOSITE
    if any(is_way_back(way, back) for way in one.sides for back in other.sides):
        return Veto.DIRECTION
    if is_substitution(one.content, other.content):
        return Veto.SUBSTITUTION
    return None


def is_way_back(way: tuple[str, str], back: tuple[str, str]) -> bool:
    """Whether what stands left and right of a word with a direction has changed places."""
    return _meet(way[0], back[1]) and _meet(back[0], way[1])


def _meet(left: str, right: str) -> bool:
    """Whether `left` ends in what `right` begins with: a word, or two signs of Chinese."""
    if not is_han(left[-1]):
        return left == right
    return any(right.startswith(left[-size:]) for size in range(2, len(left) + 1))


def is_substitution(one: tuple[str, ...], other: tuple[str, ...]) -> bool:
    """Whether the texts are one sentence in which one thing stands in another's place, or share nothing.

    `one` and `other` are what they say without function words. In one pass: nobody holds the loop up with a
    text that is made for it.
    """
    shorter = min(len(one), len(other))
    begin = end = 0
    while begin < shorter and one[begin] == other[begin]:
        begin += 1
    while end < shorter - begin and one[-1 - end] == other[-1 - end]:
        end += 1
    here, there = one[begin : len(one) - end], other[begin : len(other) - end]
    # What they share between the first difference and the last makes these two changes, and another sentence.
    return bool(here) and bool(there) and _pieces(here).isdisjoint(_pieces(there))


def _pieces(content: tuple[str, ...]) -> set[str]:
    """Return the words, and the pairs of Chinese signs: a single one is in two words by chance."""
    pairs = {left + right for left, right in pairwise(content) if is_han(left) and is_han(right)}
    return pairs | {piece for piece in content if not is_han(piece)}
