"""Personal data and secrets in a text: where they are, and the text without them (pure).

Knows nothing of logs, prompts or requests. What counts: mainland-China mobile, landline and service
numbers, international phone numbers, 18-digit identity numbers with a right checksum (GB 11643), mail
addresses, keys and tokens, bank cards by Luhn within the ranges that card networks use. What does not
count: UUIDs, hexadecimal strings, time stamps, decimals, numbers whose checksum is wrong.
"""

from __future__ import annotations

import re
import string
from typing import Final

from ext_proc.redaction.findings import Finding, Span, blanked
from ext_proc.redaction.keys import key_spans
from ext_proc.redaction.numbers import number_findings

# Full-width digits and the dashes and blanks people paste, one character for one, so that positions hold.
_FOLD: Final = (
    *((chr(0xFF10 + digit), str(digit)) for digit in range(10)),
    *((mark, "-") for mark in "\u2010\u2011\u2012\u2013\u2014\u2212\uff0d"),
    *((mark, " ") for mark in "\u00a0\u2002\u2003\u2009\u202f\u3000"),
    *zip("\uff0b\uff20\uff0e\uff08\uff09\uff38", "+@.()X", strict=True),
)
# A letter as JSON may write it: its digits belong to no number beside it.
_ESCAPED: Final = re.compile(r"\\u(?!00[0-7])[0-9A-Fa-f]{4}")
_LOCAL_CHARACTERS: Final = string.ascii_letters + string.digits + "._%+-"
_EMAIL: Final = re.compile(
    r"(?<![A-Za-z0-9._%+-])[A-Za-z0-9._%+-]+@(?:[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?\.)+[A-Za-z]{2,24}"
)
# Four times what RFC 5321, 4.5.3.1 allows before the sign, and more than it allows behind.
_LONGEST_LOCAL_PART: Final = 256
_LONGEST_DOMAIN: Final = 320


def redact(text: str) -> str:
    """Return `text` with every finding replaced by its entity in brackets, such as `[phone]`.

    Nothing else changes, to the character. Control characters are the caller's affair.
    """
    findings = find(text)
    if not findings:
        return text
    parts: list[str] = []
    at = 0
    for finding in findings:
        parts += (text[at : finding.start], "[", finding.entity, "]")
        at = finding.end
    parts.append(text[at:])
    return "".join(parts)


def find(text: str, *, words: bool = True) -> list[Finding]:
    """Return what has to be hidden in `text`, in order, without overlaps.

    A word that follows "bearer" or "basic" may be a key or prose; `words`: hide it, too. Where two readings
    overlap, the surer one wins: key, mail address, identity number, card, phone. Takes time linear in the
    length of `text`.
    """
    folded = text if text.isascii() else _folded(text)
    if "\\u" in folded:
        folded = _ESCAPED.sub("\0" * 6, folded)
    spans = key_spans(folded, words=words)
    found = [Finding("key", *span) for span in spans]
    folded = blanked(folded, spans)
    if "@" in folded:
        spans = _email_spans(folded)
        found += [Finding("email", *span) for span in spans]
        folded = blanked(folded, spans)
    found += number_findings(folded)
    found.sort(key=lambda finding: finding.start)
    return found


def _email_spans(text: str) -> list[Span]:
    spans: list[Span] = []
    sign = text.find("@")
    while sign >= 0:
        at = max(spans[-1][1] if spans else 0, sign - _LONGEST_LOCAL_PART)
        # Where the address would begin is looked for once a sign, so that texts full of signs stay linear.
        begin = at + len(text[at:sign].rstrip(_LOCAL_CHARACTERS))
        match = _EMAIL.match(text, begin, sign + _LONGEST_DOMAIN)
        if match is not None:
            spans.append(match.span())
        sign = text.find("@", max(sign + 1, spans[-1][1] if spans else 0))
    return spans


def _folded(text: str) -> str:
    # Most of these are in no text: looking for each is much cheaper than a table for every character.
    for mark, plain in _FOLD:
        if mark in text:
            text = text.replace(mark, plain)
    return text
