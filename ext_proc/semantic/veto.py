"""What tells two questions apart however alike they sound (pure).

Similarity of meaning is blind to just these: a number, a name, a `not`, the way back. A veto costs a hit at
most; what none of them sees is left to the evidence.
"""

from __future__ import annotations

from difflib import SequenceMatcher
from enum import StrEnum

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

    `one` and `other` are what they say without function words.
    """
    if one == other or not one or not other:
        return False
    shorter, longer = sorted((one, other))  # what matches what may depend on the order
    blocks = SequenceMatcher(None, shorter, longer, autojunk=False).get_matching_blocks()
    here = there = changes = 0
    substituted = False
    for block in blocks:
        at_edge = (block.a, block.b) == (0, 0) or (
            block.a + block.size == len(shorter) and block.b + block.size == len(longer)
        )
        # One sign of Chinese that two words share by chance does not make them one.
        if block.size == 1 and is_han(shorter[block.a]) and not at_edge:
            continue
        if block.a > here or block.b > there:
            changes += 1
            substituted = block.a > here and block.b > there
        here, there = block.a + block.size, block.b + block.size
    return changes == 1 and substituted
