"""International phone numbers, by the numbering plans in `phonenumbers`.

The library is loaded at the first number that begins with a country code, not before: a processor that
never logs one does not pay for it.
"""

from __future__ import annotations

import re
from typing import Final

_DIGIT: Final = re.compile(r"\d")
_BREAK: Final = re.compile(r"\d(?=\D)")


def international_length(candidate: str) -> int:
    """Return how many characters of `candidate` are one valid phone number; 0 if none.

    Args:
        candidate: begins with `+` or `00` and a country code; blanks, dashes, dots, slashes and brackets may
            stand between digits. What follows the number may be digits of something else: groups are
            taken off its end until the rest is valid.
    """
    # The import stands here, see above.
    from phonenumbers import NumberParseException, is_valid_number, parse  # noqa: PLC0415

    skip = 2 if candidate.startswith("00") else 1
    ends = [len(candidate), *(match.end() for match in reversed(list(_BREAK.finditer(candidate))))]
    for end in ends:
        digits = "".join(_DIGIT.findall(candidate[skip:end]))
        if len(digits) < 7:
            return 0
        try:
            if is_valid_number(parse(f"+{digits}", None)):
                return end
        except NumberParseException:
            continue
    return 0
