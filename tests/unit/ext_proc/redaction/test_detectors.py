from __future__ import annotations

import time
import uuid

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ext_proc.contract.entities import Entity
from ext_proc.redaction.detectors import find, redact
from ext_proc.redaction.findings import Finding

ID_CARD = "11010519491231002X"
CARD = "4111111111111111"


@pytest.mark.parametrize(
    ("text", "redacted"),
    [
        ("电话13800138000。", "电话[phone]。"),
        ("138 0013 8000 / 138-0013-8000", "[phone] / [phone]"),
        ("(+86)13800138000, 0086 13800138000, 8613800138000", "[phone], [phone], [phone]"),
        ("１３８００１３８０００", "[phone]"),
        ("\\u8bdd13800138000, \\u7bb1a@b.cn", "\\u8bdd[phone], \\u7bb1[email]"),
        ("name_13900139000 tel13800138000", "name_[phone] tel[phone]"),
        ("010-88888888, (021) 6666 6666, 400-800-1234", "[phone], [phone], [phone]"),
        ("+1 415-555-2671 or 0049 30 901820", "[phone] or [phone]"),
        (f"身份证{ID_CARD}.", "身份证[identity]."),
        ("110105 19491231 002x", "[identity]"),
        ("mail Zhang.San+x@mail.example.com.", "mail [email]."),
        (CARD, "[card]"),
        ("pay 4111-1111 with 4111-1111-1111-1111 12/26", "pay 4111-1111 with [card] 12/26"),
        ("6222 0212 3456 7890 128", "[card]"),
        ("3782 822463 10005", "[card]"),
        ("Authorization: Bearer abc.def-123", "Authorization: Bearer [key]"),
        ("key sk-proj-aB3_x9-long and ork_AbC-123", "key [key] and [key]"),
        ('{"api_key": "marker-1234567890"}', '{"api_key": "[key]"}'),
        ("redis://:hunter2@cache:6379/0", "redis://:[key]@cache:6379/0"),
        ("/v1/x?api_key=abc123456&n=1", "/v1/x?api_key=[key]&n=1"),
        ("eyJhbGciOi.eyJzdWIiOi.c2lnbmF0dXJl", "[key]"),
        ("an jörg.müller@firma.de，x@bücher.de", "an [email]，[email]"),
    ],
)
def test_hidden(text: str, redacted: str) -> None:
    """Each kind is replaced whole, in the forms people write it, and the text around stays."""
    assert redact(text) == redacted


@pytest.mark.parametrize(
    "text",
    [
        "550e8400-e29b-41d4-a716-446655440000",
        "12345678-1234-1234-1234-138001380001",
        "1700000000000 1700000000 1700000000000000",
        "order 4111111111111112, order 20240115123456789",
        "deadbeef13800138000cafe 0x13800138000 a13800138000",
        "0.13800138000 13800138000.5",
        "2024-01-15 12:34:56 2024/01/15 20240115T123456Z",
        "110105194912310021",
        "こんにちは、今日は2024年1月15日です。会議は10:30からです。",
        "sk-learn, task-based, risk-averse; Basic usage; max_tokens: 4096, prompt_tokens=12",
        "0012345678901",
        "1 + 1 = 2; 3,000,000; 1234 5678",
    ],
)
def test_left_alone(text: str) -> None:
    """What only looks like personal data stays as it is."""
    assert redact(text) == text


def test_six_items_two_adjacent_after_emoji() -> None:
    """Items that touch each other are each replaced whole; emoji before them shift nothing."""
    text = f"😀👨‍👩‍👧 13800138000{ID_CARD} a@b.cn，{CARD};+1 415-555-2671|sk-abc123def456 末"
    assert redact(text) == "😀👨‍👩‍👧 [phone][identity] [email]，[card];[phone]|[key] 末"


def test_mail_address_touching_a_phone_number() -> None:
    """A number right behind an address is a finding of its own."""
    assert redact("a@b.com13800138000") == "[email][phone]"


@settings(deadline=None)  # the first country code loads the numbering plans
@given(st.text(max_size=200))
def test_findings_are_ordered_and_disjoint(text: str) -> None:
    """Whatever the text, findings lie inside it, in order, and do not overlap."""
    at = 0
    for finding in find(text):
        assert at <= finding.start < finding.end <= len(text)
        at = finding.end


@settings(deadline=None)
@given(st.text(alphabet="0123456789 -+@.xabX()", max_size=80))
def test_text_around_findings_is_unchanged(text: str) -> None:
    """Putting the found pieces back gives the text, and redacting again changes nothing."""
    pieces, at, redacted = [], 0, redact(text)
    for finding in find(text):
        pieces.append(text[at : finding.start] + f"[{finding.entity}]")
        at = finding.end
    assert redacted == "".join(pieces) + text[at:]
    assert redact(redacted) == redacted


@settings(deadline=None)
@given(
    before=st.text(st.characters(exclude_categories=("Nd", "Cs"), exclude_characters="+-.@()"), max_size=20),
    item=st.sampled_from(
        [("13800138000", "phone"), (ID_CARD, "identity"), (CARD, "card"), ("a1@b.cn", "email")]
    ),
)
def test_found_in_any_surrounding(before: str, item: tuple[str, Entity]) -> None:
    """A blank away from anything but digits and signs, each item is found at its place.

    Behind a word such as "bearer" it is a key.
    """
    text = f"{before} {item[0]}"
    found = find(text)
    place = len(before) + 1, len(text)
    assert Finding(item[1], *place) in found or Finding("key", *place) in found


@given(st.integers(min_value=0, max_value=2**128 - 1))
def test_uuids_are_never_found(number: int) -> None:
    """No UUID is taken for a number of any kind."""
    text = str(uuid.UUID(int=number))
    assert redact(text) == text


@given(st.integers(min_value=1_000_000_000_000, max_value=2_000_000_000_000))
def test_epoch_milliseconds_are_never_found(number: int) -> None:
    """No time stamp of our decades is taken for a card or a phone number."""
    assert redact(f"at {number} done") == f"at {number} done"


@pytest.mark.parametrize(
    "unit", ["1", "1234 ", "a@", "4111-", "f13800138000", "+1", "sk-", "eyJ", "://a:", "bearer ", "basic\t"]
)
def test_takes_linear_time(unit: str) -> None:
    """Repetition makes a text longer, not slower by the square."""
    started = time.perf_counter()
    redact(unit * (40_000 // len(unit)))
    assert time.perf_counter() - started < 10
