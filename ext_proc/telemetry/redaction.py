"""Personal data and secrets in a text: where they are, and the text without them (pure).

Knows nothing of logs, prompts or requests. What counts: mainland-China mobile, landline and service
numbers, international phone numbers, 18-digit identity numbers with a right checksum (GB 11643), mail
addresses, keys and tokens, bank cards by Luhn within the ranges that card networks use. What does not
count: UUIDs, hexadecimal strings, time stamps, decimals, numbers whose checksum is wrong.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date
from enum import StrEnum
from itertools import pairwise
from typing import Final

from ext_proc.telemetry.phones import international_length


class Kind(StrEnum):
    """What was found. The value stands between brackets in the redacted text."""

    PHONE = "phone"
    ID_CARD = "id-card"
    EMAIL = "email"
    KEY = "key"
    CARD = "card"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing to hide: `text[start:end]`, in code points."""

    kind: Kind
    start: int
    end: int


# Full-width digits and the dashes and blanks people paste, one character for one, so that positions hold.
_FOLD: Final = {
    **{0xFF10 + digit: ord("0") + digit for digit in range(10)},
    **dict.fromkeys((0x2010, 0x2011, 0x2012, 0x2013, 0x2014, 0x2212, 0xFF0D), ord("-")),
    **dict.fromkeys((0xA0, 0x2002, 0x2003, 0x2009, 0x202F, 0x3000), ord(" ")),
    0xFF0B: ord("+"),
    0xFF20: ord("@"),
    0xFF0E: ord("."),
    0xFF08: ord("("),
    0xFF09: ord(")"),
    0xFF38: ord("X"),
}

_KEYS: Final = re.compile(
    r"""
      (?i:\bbearer\s+)(?P<bearer>[A-Za-z0-9._~+/=-]{6,})
    | (?i:\bbasic\s+)(?P<basic>[A-Za-z0-9+/]{12,}={0,2})
    | ://[^\s/@:"']*:(?P<url>[^\s/@"']+)@
    | (?i:(?<![a-z])(?:authorization|(?:x-)?api[-_]?key|passw(?:or)?d|client[-_]secret|access[-_]token))
      \\?["']?\s*[:=]\s*\\?["']?
      (?!(?i:bearer|basic)\s)(?P<named>(?=[^\s"',;&}\\]*\d|[^\s"',;&}\\]{16})[^\s"',;&}\\]{6,})
    | (?<![A-Za-z0-9])(?P<token>
          sk-(?:[A-Za-z0-9_-]*\d[A-Za-z0-9_-]{2,}|[A-Za-z0-9_-]{16,})
        | or[kt]_[A-Za-z0-9_-]{4,}
        | (?:[prs]k_(?:live|test)|gh[pousr]|github_pat|glpat|gsk|hf|xai|npm|pypi)[_-][A-Za-z0-9_-]{16,}
        | xox[abeprs]-[A-Za-z0-9-]{10,}
        | AIza[A-Za-z0-9_-]{30,}
        | A[KS]IA[A-Z0-9]{16}(?![A-Za-z0-9])
        | eyJ[A-Za-z0-9_-]{6,}\.[A-Za-z0-9_-]{6,}\.[A-Za-z0-9_-]*
        | -----BEGIN\ [A-Z ]*PRIVATE\ KEY-----(?:.*?-----END\ [A-Z ]*PRIVATE\ KEY-----|.*)
      )
    """,
    re.VERBOSE | re.DOTALL,
)
# A quick look whether `_KEYS` can match at all: it spares most texts its many branches.
_KEY_HINT: Final = re.compile(
    r"bearer\s|basic\s|://|authorization|key|passw|secret|token|sk-|[a-z]k_|or[kt]_|gh[pousr]_|github_pat|glpat"
    r"|gsk|hf_|xai|npm|pypi|xox|aiza|a[ks]ia|eyj",
    re.IGNORECASE,
)
# The look-behind starts each run of address characters once, which keeps long texts linear.
_EMAIL: Final = re.compile(
    r"(?<![A-Za-z0-9._%+-])[A-Za-z0-9._%+-]+@(?:[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?\.)+[A-Za-z]{2,24}"
)
_UUID: Final = re.compile(
    r"(?<![0-9a-zA-Z])[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}(?![0-9a-zA-Z])"
)
_MANY_DIGITS: Final = re.compile(r"\d(?:[ ()\-./]{0,2}\d){6}")
_ID_CARD: Final = re.compile(r"(?<!\d)[1-9]\d{5}([ -]?)(?:18|19|20)\d{6}\1\d{3}(?:[Xx]|\d(?!\d))")
_TOKEN_END: Final = re.compile(r"[0-9A-Za-z]*$")
_TOKEN_START: Final = re.compile(r"[0-9A-Za-z]*")
_HEX: Final = re.compile(r"(?:0[xX])?[0-9a-fA-F]+")
_DIGIT_GROUP: Final = re.compile(r"\d+")
_LONG_RUN: Final = re.compile(r"\d{24,60}[Xx]?")
_MOBILE: Final = re.compile(
    r"(?<!\d)(?<!\d\.)(?:\(?(?:\+|00)?86\)?[ -]?)?1[3-9]\d"
    r"(?:([ -]?)\d{4}\1\d{4}|[ -]\d{3}[ -]\d{5}|\d[ -]\d{3}[ -]\d{4})(?!\d)(?!\.\d)"
)
_LANDLINE: Final = re.compile(
    r"(?<![\d-])(?:(?:\+|00)86[ -]?\(?0?[1-9]\d{1,2}\)?[ -]?|\(0[1-9]\d{1,2}\)[ -]?|0[1-9]\d{1,2}[ -])"
    r"[2-9]\d{2,3}[ -]?\d{4}(?![\d])(?:(?:-|转|ext\.?\s?)\d{1,6}(?!\d))?"
    r"|(?<![\d-])[48]00-\d{3}-?\d{4}(?![\d-])|(?<![\d-])[48]00-\d{4}-\d{3}(?![\d-])"
)
_INTERNATIONAL: Final = re.compile(r"(?<![\d+])(?:\+|00)[1-9](?:[ ()\-./]{0,2}\d){5,14}")
_ID_WEIGHTS: Final = (7, 9, 10, 5, 8, 4, 2, 1, 6, 3, 7, 9, 10, 5, 8, 4, 2)
_ID_CHECK: Final = "10X98765432"
_LUHN_DOUBLED: Final = (0, 2, 4, 6, 8, 1, 3, 5, 7, 9)
# First digits and lengths of the card networks (ISO/IEC 7812 ranges in use for bank cards).
_NETWORKS: Final = re.compile(
    r"4(?:\d{12}|\d{15}|\d{18})"  # Visa
    r"|5[1-5]\d{14}|2(?:22[1-9]|2[3-9]\d|[3-6]\d\d|7[01]\d|720)\d{12}"  # Mastercard
    r"|3[47]\d{13}|3(?:0[0-59]|[689]\d)\d{11,16}|35\d{14,17}"  # American Express, Diners, JCB
    r"|6\d{12,18}|(?:50|5[6-8])\d{11,17}"  # UnionPay, Discover, Maestro, RuPay
    r"|8[12]\d{14,17}|220[0-4]\d{12,15}|9(?:558|792|555|111)\d{12,15}"  # UnionPay, Mir, Troy, older Chinese
)


def redact(text: str) -> str:
    """Return `text` with every finding replaced by its kind in brackets, such as `[phone]`.

    Nothing else changes, to the character. Control characters are the caller's affair.
    """
    findings = find(text)
    if not findings:
        return text
    parts: list[str] = []
    at = 0
    for finding in findings:
        parts += (text[at : finding.start], "[", finding.kind, "]")
        at = finding.end
    parts.append(text[at:])
    return "".join(parts)


def find(text: str) -> list[Finding]:
    """Return what has to be hidden in `text`, in order, without overlaps.

    Where two readings overlap, the surer one wins: key, mail address, identity number, card, phone.
    Takes time linear in the length of `text`.
    """
    folded = text if text.isascii() else text.translate(_FOLD)
    found: list[Finding] = []
    if _KEY_HINT.search(folded) or "-----BEGIN" in folded:
        folded = _collect(folded, found, Kind.KEY, _key_spans(folded))
    if "@" in folded:
        folded = _collect(folded, found, Kind.EMAIL, [match.span() for match in _EMAIL.finditer(folded)])
    if _MANY_DIGITS.search(folded):
        if "-" in folded:
            folded = _UUID.sub(lambda match: "x" * len(match.group()), folded)
        folded = _collect_neighbours(folded, found)
        folded = _collect(folded, found, Kind.ID_CARD, _id_card_spans(folded))
        folded = _collect(folded, found, Kind.CARD, _card_spans(folded))
        folded = _collect(folded, found, Kind.PHONE, _plain_spans(folded, _MOBILE))
        folded = _collect(folded, found, Kind.PHONE, _plain_spans(folded, _LANDLINE))
        if "+" in folded or "00" in folded:
            _collect(folded, found, Kind.PHONE, _international_spans(folded))
    found.sort(key=lambda finding: finding.start)
    return found


def is_id_card(number: str) -> bool:
    """Whether 18 characters are a mainland identity number: a real birth date and the right check digit."""
    try:
        date(int(number[6:10]), int(number[10:12]), int(number[12:14]))
    except ValueError:
        return False
    total = sum(weight * int(digit) for weight, digit in zip(_ID_WEIGHTS, number, strict=False))
    return _ID_CHECK[total % 11] == number[17].upper()


def is_card(number: str) -> bool:
    """Whether these digits are a bank card number: a network's range and length, and Luhn's checksum."""
    if _NETWORKS.fullmatch(number) is None:
        return False
    digits = [int(digit) for digit in reversed(number)]
    return (sum(digits[0::2]) + sum(_LUHN_DOUBLED[digit] for digit in digits[1::2])) % 10 == 0


def _collect(text: str, found: list[Finding], kind: Kind, spans: list[tuple[int, int]]) -> str:
    """Note the spans and return `text` with them blanked out, so that no later pattern reads them."""
    if not spans:
        return text
    parts: list[str] = []
    at = 0
    for start, end in spans:
        found.append(Finding(kind, start, end))
        parts += (text[at:start], "\0" * (end - start))
        at = end
    parts.append(text[at:])
    return "".join(parts)


def _key_spans(text: str) -> list[tuple[int, int]]:
    return [match.span(match.lastgroup or 0) for match in _KEYS.finditer(text)]


def _id_card_spans(text: str) -> list[tuple[int, int]]:
    return [
        match.span()
        for match in _ID_CARD.finditer(text)
        if is_id_card(re.sub("[ -]", "", match.group())) and not _in_hex(text, *match.span())
    ]


def _card_spans(text: str) -> list[tuple[int, int]]:
    groups = [match.span() for match in _DIGIT_GROUP.finditer(text)]
    spans = []
    first = 0
    while first < len(groups):
        last = _last_of_card(text, groups, first)
        if last is not None:
            spans.append((groups[first][0], groups[last][1]))
            first = last
        first += 1
    return spans


def _last_of_card(text: str, groups: list[tuple[int, int]], first: int) -> int | None:
    """Return the index of the last group of a card that begins with group `first`; None if none does.

    A card's groups stand one blank or dash apart, always the same. Only its last group may be shorter than
    three digits: other short groups are dates and lists.
    """
    start, longest = groups[first][0], None
    digits, separator = "", ""
    for index in range(first, len(groups)):
        left, right = groups[index]
        if index > first:
            gap = text[groups[index - 1][1] : left]
            separator = separator or gap
            if gap != separator or gap not in {" ", "-"}:
                break
        digits += text[left:right]
        if len(digits) > 19:
            break
        if is_card(digits) and not _in_hex(text, start, right) and not _decimal(text, start, right):
            longest = index
        if right - left < 3:
            break
    return longest


def _plain_spans(text: str, pattern: re.Pattern[str]) -> list[tuple[int, int]]:
    return [match.span() for match in pattern.finditer(text) if not _in_hex(text, *match.span())]


def _international_spans(text: str) -> list[tuple[int, int]]:
    spans = []
    for match in _INTERNATIONAL.finditer(text):
        # `00` without a blank or dash anywhere may as well be a number padded with zeros.
        if match.group().isdigit():
            continue
        length = international_length(match.group())
        end = match.start() + length
        if length and not text[end : end + 1].isdigit():
            spans.append((match.start(), end))
    return spans


def _collect_neighbours(text: str, found: list[Finding]) -> str:
    """Find identity numbers, cards and mobile numbers that stand side by side with nothing between."""
    for run in list(_LONG_RUN.finditer(text)):
        cuts = _split(run.group())
        if cuts is None or _in_hex(text, *run.span()):
            continue
        for (start, kind), (end, _) in pairwise([*cuts, (len(run.group()), Kind.PHONE)]):
            text = _collect(text, found, kind, [(run.start() + start, run.start() + end)])
    return text


def _split(run: str) -> list[tuple[int, Kind]] | None:
    """Read `run` as items without a rest, at least one of them with a checksum; None if it is not that."""
    readings: dict[int, list[tuple[int, Kind]]] = {0: []}
    for at in range(len(run)):
        if at not in readings:
            continue
        for length, kind in _items_at(run, at):
            readings.setdefault(at + length, [*readings[at], (at, kind)])
    cuts = readings.get(len(run))
    return cuts if cuts and len(cuts) > 1 and any(kind is not Kind.PHONE for _, kind in cuts) else None


def _items_at(run: str, at: int) -> list[tuple[int, Kind]]:
    items: list[tuple[int, Kind]] = []
    if re.fullmatch(r"[1-9]\d{16}[\dXx]", run[at : at + 18]) and is_id_card(run[at : at + 18]):
        items.append((18, Kind.ID_CARD))
    items += [(size, Kind.CARD) for size in (16, 19, 15) if is_card(run[at : at + size])]
    if re.fullmatch(r"1[3-9]\d{9}", run[at : at + 11]):
        items.append((11, Kind.PHONE))
    return items


def _in_hex(text: str, start: int, end: int) -> bool:
    """Whether the letters and digits around a number make it part of one hexadecimal string."""
    if not (text[start - 1 : start].isalnum() or text[end : end + 1].isalnum()):
        return False
    # 128 characters hold the longest digest; looking no further keeps long texts linear.
    left = _TOKEN_END.search(text, max(0, start - 128), start)
    right = _TOKEN_START.match(text, end, end + 128)
    before, after = left.group() if left else "", right.group() if right else ""
    return bool(before or after) and _HEX.fullmatch(before + text[start:end] + after) is not None


def _decimal(text: str, start: int, end: int) -> bool:
    """Whether the digits are a part of a number with a decimal point."""
    before, after = text[max(0, start - 2) : start], text[end : end + 2]
    return (before[1:] == "." and before[:1].isdigit()) or (after[:1] == "." and after[1:].isdigit())
