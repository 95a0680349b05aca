"""Personal data and secrets in a text: where they are, and the text without them (pure).

Knows nothing of logs, prompts or requests. What counts: mainland-China mobile, landline and service
numbers, international phone numbers, 18-digit identity numbers with a right checksum (GB 11643), mail
addresses, keys and tokens, bank cards by Luhn within the ranges that card networks use. What does not
count: UUIDs, hexadecimal strings, time stamps, decimals, numbers whose checksum is wrong.
"""

from __future__ import annotations

import re
from typing import Final

from ext_proc.redaction.findings import Finding, blanked
from ext_proc.redaction.keys import key_spans
from ext_proc.redaction.mails import email_spans, is_spaced_letter
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
    lettered = folded
    if "\\u" in folded:
        if "@" in folded:
            # To an address such a letter may belong.
            lettered = _ESCAPED.sub(_lettered, folded)
        folded = _ESCAPED.sub("\0" * 6, folded)
    spans = key_spans(folded, words=words)
    found = [Finding("key", *span) for span in spans]
    folded = blanked(folded, spans)
    if "@" in folded:
        emails = email_spans(blanked(lettered, spans))
        found += [Finding("email", *span) for span in emails]
        folded = blanked(folded, emails)
    found += number_findings(folded)
    found.sort(key=lambda finding: finding.start)
    return found


def _lettered(escape: re.Match[str]) -> str:
    return ("a" if is_spaced_letter(chr(int(escape.group()[2:], 16))) else "\0") * 6


def _folded(text: str) -> str:
    # Most of these are in no text: looking for each is much cheaper than a table for every character.
    for mark, plain in _FOLD:
        if mark in text:
            text = text.replace(mark, plain)
    return text
