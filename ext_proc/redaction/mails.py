"""Mail addresses in a text, in any script (pure).

What may stand in an address: RFC 5321 and RFC 6531 (internationalised mail), RFC 5890 (domains). Quoted local
parts and the rarer signs of RFC 5322 are not looked for. Takes time linear in the length of the text.
"""

from __future__ import annotations

import re
import string
from typing import Final

from ext_proc.redaction.findings import Span

# Scripts whose words touch an address beside them: Thai, Lao, Burmese, Khmer, Hangul, Han, kana.
_UNSPACED: Final = (
    "\u0e01-\u0e3a\u0e40-\u0e4e\u0e50-\u0e59\u0e81-\u0edf\u1000-\u1049\u1050-\u109f\u1100-\u11ff\u1780-\u17d3"
    "\u17d7\u17dc-\u17e9\u2e80-\u2fdf\u3005-\u3007\u3021-\u3029\u3031-\u3035\u303b\u303c\u3041-\u309f"
    "\u30a1-\u30fa\u30fc-\u318f\u31a0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\ua960-\ua97f\uac00-\ud7fb\uf900-\ufaff"
    "\uff66-\uffdc\U0001b000-\U0001b16f\U00020000-\U0003ffff\U000e0100-\U000e01ef"
)
# What `\w` takes for letters and is none: numbers in circles, fractions, superscripts.
_NO_LETTERS: Final = "\u00b2\u00b3\u00b9\u00bc-\u00be\u2000-\u2bff\u3000-\u33ff"
# Accents and vowel signs that are characters of their own, and what joins letters.
_MARKS: Final = (
    "\u0300-\u036f\u0483-\u0487\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0610-\u061a\u064b-\u065f"
    "\u0670\u06d6-\u06dc\u06df-\u06e8\u06ea-\u06ed\u0900-\u0963\u0971-\u0df3\u1ab0-\u1aff\u1dc0-\u1dff"
    "\u200c\u200d\ua8e0-\ua8f1"
)
_FOREIGN: Final = re.compile(
    rf"(?P<unspaced>[{_UNSPACED}]+)|[^\W\x00-\x7f{_NO_LETTERS}{_UNSPACED}]+|[{_MARKS}]+"
)

# Below, one character stands for all letters of the unspaced scripts, and "a" for all others beyond ASCII.
_WIDE: Final = "\u4e00"
_DOMAIN: Final = re.compile(
    # Only the first label may go over from a letter to a wide one: behind a later one a sentence goes on.
    rf"(?!-)[A-Za-z0-9{_WIDE}-]++(?<!-)\."
    rf"(?:(?!-)[0-9{_WIDE}-]*+[A-Za-z0-9-]*+(?<![.-])\.)*"
    rf"(?P<top>[Xx][Nn]--[A-Za-z0-9-]{{1,59}}|[A-Za-z]{{2,24}}|{_WIDE}{{2,6}})"
)
_LOCAL_CHARACTERS: Final = string.ascii_letters + string.digits + "._%+-"
# Four times what RFC 5321, 4.5.3.1 allows before the sign, and more than it allows behind.
_LONGEST_LOCAL_PART: Final = 256
_LONGEST_DOMAIN: Final = 320
# Where a sentence cannot be told from a local part, the limit itself.
_LONGEST_UNSPACED: Final = 64
# Endings of domains; any other behind a wide letter and the sign may be code, such as @app.route or @main.py.
_KNOWN_TOPS: Final = frozenset(
    (
        *("club", "cn", "com", "edu", "gov", "hk", "jp", "kr", "mo", "my", "net", "online", "org", "sg"),
        *("shop", "site", "th", "top", "tw", "vip", "xyz"),
        *(
            "ai",
            "au",
            "biz",
            "ca",
            "cc",
            "ch",
            "co",
            "de",
            "eu",
            "fr",
            "info",
            "io",
            "me",
            "nl",
            "tv",
            "uk",
            "us",
        ),
    )
)


def email_spans(text: str) -> list[Span]:
    """Return where mail addresses are in `text`, in order, in code points.

    An address begins and ends where the script changes to or from one that is written without blanks. Where
    such a script is a part of the address itself, everything up to the last blank or sign of punctuation is
    taken for its local part, at most 64 characters.
    """
    if text.isascii():
        return _spans(text, text)
    spans: list[Span] = []
    for start, end in _windows(text):
        part = text[start:end]
        spans += [(start + begin, start + stop) for begin, stop in _spans(part, _FOREIGN.sub(_plain, part))]
    return spans


def is_spaced_letter(character: str) -> bool:
    """Whether `character` is a letter beyond ASCII, or its accent, of a script with blanks between words."""
    match = _FOREIGN.match(character)
    return match is not None and match["unspaced"] is None


def _windows(text: str) -> list[Span]:
    """Return the parts of `text` that addresses may be in, apart from each other."""
    windows: list[Span] = []
    sign = text.find("@")
    while sign >= 0:
        left, right = max(0, sign - _LONGEST_LOCAL_PART), min(len(text), sign + _LONGEST_DOMAIN)
        # Most have a blank before and behind them.
        left = max(left, text.rfind(" ", left, sign) + 1)
        blank = text.find(" ", sign, right)
        right = right if blank < 0 else blank
        if windows and left <= windows[-1][1]:
            windows[-1] = (windows[-1][0], right)
        else:
            windows.append((left, right))
        sign = text.find("@", sign + 1)
    return windows


def _plain(match: re.Match[str]) -> str:
    return (_WIDE if match["unspaced"] else "a") * len(match.group())


def _spans(text: str, plain: str) -> list[Span]:
    """Return the addresses of `text`, of which `plain` shows the kinds of its letters."""
    spans: list[Span] = []
    end = 0
    sign = plain.find("@")
    while sign >= 0:
        # Once a sign, and only what lies between two signs, so that texts full of signs stay linear.
        stop = _domain_end(text, plain, sign)
        if stop:
            begin = _begin(plain, end, sign, stop)
            if spans and end == sign:
                # The domain before it has taken this one's local part.
                begin, _ = spans.pop()
            if begin < sign:
                spans.append((begin, stop))
                end = stop
        sign = plain.find("@", max(sign + 1, end))
    return spans


def _domain_end(text: str, plain: str, sign: int) -> int:
    """Return where the domain behind the sign ends, 0 if there is none."""
    match = _DOMAIN.match(plain, sign + 1, sign + _LONGEST_DOMAIN)
    if match is None:
        return 0
    end, top = match.end(), match["top"]
    if top[0] == _WIDE:
        labels = match.group().split(".")
        if len(labels) > 2 and labels[-2].lower() in _KNOWN_TOPS:
            # A full stop, and the next sentence.
            end -= len(top) + 1
    elif plain[sign - 1 : sign] == _WIDE and _WIDE not in match.group():
        written = text[match.start("top") : end].lower()
        if written.isascii() and not (written in _KNOWN_TOPS or written.startswith("xn--")):
            return 0
    return end


def _begin(plain: str, at: int, sign: int, stop: int) -> int:
    """Return where the local part begins that ends at the sign, not before `at`."""
    left = max(at, sign - _LONGEST_LOCAL_PART)
    begin = left + len(plain[left:sign].rstrip(_LOCAL_CHARACTERS))
    if begin > left and plain[begin - 1] == _WIDE and (begin == sign or _WIDE in plain[sign:stop]):
        left = max(at, sign - _LONGEST_UNSPACED)
        begin = min(begin, left + len(plain[left:sign].rstrip(_LOCAL_CHARACTERS + _WIDE)))
    return begin
