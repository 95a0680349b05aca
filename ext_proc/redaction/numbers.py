"""Phone, identity and card numbers in a text, by their forms, ranges and checksums (pure).

Takes time linear in the length of the text; patterns run only around runs of digits that are long enough.
"""

from __future__ import annotations

import re
from datetime import date
from itertools import pairwise
from typing import Final

from ext_proc.contract.entities import Entity
from ext_proc.redaction.findings import Finding, Span, blanked
from ext_proc.redaction.phones import international_length

# What a number of any kind lies in: a run of digits and what stands between them.
_RUN: Final = re.compile(r"\d[\d ()\-./]{8,}+")
_RUN_AFTER_PLUS: Final = re.compile(r"\+\d[\d ()\-./]{5,}+")
_LEAST_DIGITS: Final = 9
# Beyond this nothing is looked at to judge a number: it holds the longest digest.
_AROUND: Final = 128
_UUID: Final = re.compile(
    r"(?<![0-9a-zA-Z])[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}(?![0-9a-zA-Z])"
)
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
    # Area codes: 10, 2x, and three digits from 3 on.
    r"(?<![\d-])(?:(?:\+|00)86[ -]?\(?0?[1-9]\d{1,2}\)?[ -]?"
    r"|\(0(?:10|2\d|[3-9]\d\d)\)[ -]?|0(?:10|2\d|[3-9]\d\d)[ -])"
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
    # UnionPay, Discover, Maestro, RuPay. Shorter ones are article numbers far more often (GTIN-13: 69…).
    r"|6\d{15,18}|(?:50|5[6-8])\d{14,17}"
    r"|8[12]\d{14,17}|220[0-4]\d{12,15}|9(?:558|792|555|111)\d{12,15}"  # UnionPay, Mir, Troy, older Chinese
)


def number_findings(text: str) -> list[Finding]:
    """Return the numbers of `text`, whose digits and signs are ASCII, in any order.

    Where two readings overlap, the surer one wins: identity number, card, phone.
    """
    found: list[Finding] = []
    for start, end in _windows(text):
        for one in _findings(text[start:end]):
            found.append(Finding(one.entity, start + one.start, start + one.end))
    return found


def _windows(text: str) -> list[Span]:
    """Return the parts of `text` that numbers may be in, with what has to be seen around them."""
    runs = [
        match.span() for match in _RUN.finditer(text) if sum(map(str.isdigit, match.group())) >= _LEAST_DIGITS
    ]
    if "+" in text:
        runs += [match.span() for match in _RUN_AFTER_PLUS.finditer(text)]
        runs.sort()
    windows: list[Span] = []
    for start, end in runs:
        left, right = max(0, start - _AROUND), min(len(text), end + _AROUND)
        if windows and left <= windows[-1][1]:
            windows[-1] = (windows[-1][0], max(windows[-1][1], right))
        else:
            windows.append((left, right))
    return windows


def _findings(text: str) -> list[Finding]:
    found: list[Finding] = []
    if "-" in text:
        text = _UUID.sub(lambda match: "x" * len(match.group()), text)
    text = _collect_neighbours(text, found)
    text = _collect(text, found, "identity", _id_card_spans(text))
    text = _collect(text, found, "card", _card_spans(text))
    text = _collect(text, found, "phone", _plain_spans(text, _MOBILE))
    text = _collect(text, found, "phone", _plain_spans(text, _LANDLINE))
    if "+" in text or "00" in text:
        _collect(text, found, "phone", _international_spans(text))
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


def _collect(text: str, found: list[Finding], entity: Entity, spans: list[Span]) -> str:
    """Note the spans and return `text` with them blanked out."""
    found += [Finding(entity, start, end) for start, end in spans]
    return blanked(text, spans)


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
    spans: list[Span] = []
    for run in _LONG_RUN.finditer(text):
        cuts = _split(run.group())
        # Runs of the greatest length may touch: what is hidden already is no part of a hexadecimal string.
        after = bool(spans) and spans[-1][1] == run.start()
        if cuts is None or _in_hex(text, *run.span(), begin=run.start() if after else 0):
            continue
        for (start, entity), (end, _) in pairwise([*cuts, (len(run.group()), "phone")]):
            found.append(Finding(entity, run.start() + start, run.start() + end))
        spans.append(run.span())
    return blanked(text, spans)


def _split(run: str) -> list[tuple[int, Entity]] | None:
    """Read `run` as items without a rest, at least one of them with a checksum; None if it is not that."""
    readings: dict[int, list[tuple[int, Entity]]] = {0: []}
    for at in range(len(run)):
        if at not in readings:
            continue
        for length, entity in _items_at(run, at):
            readings.setdefault(at + length, [*readings[at], (at, entity)])
    cuts = readings.get(len(run))
    return cuts if cuts and len(cuts) > 1 and any(entity != "phone" for _, entity in cuts) else None


def _items_at(run: str, at: int) -> list[tuple[int, Entity]]:
    items: list[tuple[int, Entity]] = []
    if re.fullmatch(r"[1-9]\d{16}[\dXx]", run[at : at + 18]) and is_id_card(run[at : at + 18]):
        items.append((18, "identity"))
    items += [(size, "card") for size in (16, 19, 15) if is_card(run[at : at + size])]
    if re.fullmatch(r"1[3-9]\d{9}", run[at : at + 11]):
        items.append((11, "phone"))
    return items


def _in_hex(text: str, start: int, end: int, begin: int = 0) -> bool:
    """Whether the letters and digits around a number make it part of one hexadecimal string.

    What stands before `begin` is not looked at.
    """
    if not ((start > begin and text[start - 1 : start].isalnum()) or text[end : end + 1].isalnum()):
        return False
    # 128 characters hold the longest digest; looking no further keeps long texts linear.
    left = _TOKEN_END.search(text, max(begin, start - 128), start)
    right = _TOKEN_START.match(text, end, end + 128)
    before, after = left.group() if left else "", right.group() if right else ""
    return bool(before or after) and _HEX.fullmatch(before + text[start:end] + after) is not None


def _decimal(text: str, start: int, end: int) -> bool:
    """Whether the digits are a part of a number with a decimal point."""
    before, after = text[max(0, start - 2) : start], text[end : end + 2]
    return (before[1:] == "." and before[:1].isdigit()) or (after[:1] == "." and after[1:].isdigit())
