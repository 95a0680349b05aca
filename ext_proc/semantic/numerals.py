"""The numbers in a text, in its order and in one form: digits, words, Chinese numerals, units (pure)."""

from __future__ import annotations

import re
from typing import Final

from ext_proc.semantic.vocabulary import NUMBER_WORDS, UNITS

_CHINESE_DIGITS: Final = {sign: value for value, sign in enumerate("零一二三四五六七八九")} | {
    "两": 2,
    "〇": 0,
    "俩": 2,
}
_CHINESE_STEPS: Final = {"十": 10, "百": 100, "千": 1000}
_CHINESE_SCALES: Final = {"万": 10_000, "亿": 100_000_000}
_CHINESE_NUMERAL: Final = "[零一二三四五六七八九两〇俩十][零一二三四五六七八九两〇十百千万亿]*"
_UNIT_NAMES: Final = sorted(map(re.escape, UNITS), key=len, reverse=True)
_UNIT: Final = "|".join(name + r"(?![a-z])" if name[-1].isascii() else name for name in _UNIT_NAMES)
_WORDS: Final = "|".join(sorted(NUMBER_WORDS, key=len, reverse=True))
_NUMBER: Final = re.compile(
    rf"(?P<before>[$€¥])?(?P<digits>\d+(?:[.,:/-]\d+)*)(?:st|nd|rd|th)?(?![0-9])"
    rf"|(?P<chinese>{_CHINESE_NUMERAL})"
    rf"|(?<![a-z])(?P<word>{_WORDS})(?![a-z])"
)
_FOLLOWING_UNIT: Final = re.compile(rf"[\s-]?(个?)({_UNIT})")
_GROUPS: Final = re.compile(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?")


def numbers(text: str) -> tuple[str, ...]:
    """Return the numbers of `text` (normal form NFKC, lower case), each followed by its unit if it has one.

    A lone 一 that counts no unit is none: it is an article far more often.
    """
    found: list[str] = []
    for match in _NUMBER.finditer(text):
        unit = _FOLLOWING_UNIT.match(text, match.end())
        name = UNITS[unit[2]] if unit is not None else UNITS.get(match["before"] or "", "")
        if match["digits"]:
            value = _written(match["digits"])
        elif match["word"]:
            value = NUMBER_WORDS[match["word"]]
        else:
            if match["chinese"] == "一" and not name:
                continue
            value = str(chinese_number(match["chinese"]))
        found.append(f"{value} {name}" if name else value)
    return tuple(found)


def chinese_number(numeral: str) -> int:
    """Return the value of a Chinese numeral: 三十 is 30, 两千零五 2005, 二〇二五 2025."""
    if not any(sign in _CHINESE_STEPS or sign in _CHINESE_SCALES for sign in numeral):
        return int("".join(str(_CHINESE_DIGITS[sign]) for sign in numeral))
    whole = part = digit = 0
    for sign in numeral:
        if sign in _CHINESE_DIGITS:
            digit = _CHINESE_DIGITS[sign]
        elif sign in _CHINESE_STEPS:
            part += (digit or 1) * _CHINESE_STEPS[sign]
            digit = 0
        else:
            whole = (whole + part + digit) * _CHINESE_SCALES[sign] if part + digit else whole
            part = digit = 0
    return whole + part + digit


def _written(digits: str) -> str:
    """Return digits without thousands' commas. Zeros stay: 3.1 and 3.10 are versions, too."""
    return digits.replace(",", "") if _GROUPS.fullmatch(digits) else digits
