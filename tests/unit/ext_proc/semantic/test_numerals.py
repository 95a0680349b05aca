"""Numbers in one form, however they are written."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ext_proc.semantic.numerals import chinese_number, numbers


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("no number at all", ()),
        ("5 kg", ("5 kg",)),
        ("5kg", ("5 kg",)),
        ("five kilograms", ("5 kg",)),
        ("5公斤", ("5 kg",)),
        ("五公斤", ("5 kg",)),
        ("5 pounds", ("5 lb",)),
        ("within 2 weeks", ("2 week",)),
        ("within two weeks", ("2 week",)),
        ("两周之内", ("2 week",)),
        ("六个月", ("6 month",)),
        ("6 months", ("6 month",)),
        ("1,000 users", ("1000",)),
        ("$20 a month", ("20 usd",)),
        ("20 dollars", ("20 usd",)),
        ("python 3.10 and 3.1", ("3.10", "3.1")),
        ("from 5 to 3", ("5", "3")),
        ("the 2nd one", ("2", "1")),
        ("2025-02-01", ("2025-02-01",)),
        ("at 10:30", ("10:30",)),
        ("-5 °c", ("5 c",)),
        ("二〇二五年", ("2025 year",)),
        ("一下一般一起", ()),
        ("一周", ("1 week",)),
        ("someone often ponders", ()),
        ("三十二", ("32",)),
        ("3天 or 14天", ("3 day", "14 day")),
        ("20%", ("20 %",)),
        ("v2", ("2",)),
    ],
)
def test_numbers_are_read_in_their_order(text: str, found: tuple[str, ...]) -> None:
    """Digits, words and Chinese numerals are one; units too; versions and dates stay as they are written."""
    assert numbers(text) == found


@pytest.mark.parametrize(
    ("numeral", "value"),
    [
        ("零", 0),
        ("两", 2),
        ("十", 10),
        ("十一", 11),
        ("二十", 20),
        ("九十九", 99),
        ("一百零五", 105),
        ("两千零五", 2005),
        ("三万", 30_000),
        ("十二万三千", 123_000),
        ("一亿", 100_000_000),
        ("二〇二五", 2025),
    ],
)
def test_chinese_numerals_have_their_value(numeral: str, value: int) -> None:
    """Steps within scales, and digits one by one."""
    assert chinese_number(numeral) == value


@settings(max_examples=60)
@given(st.text(alphabet="零一二两十百千万亿5., kg天个onetw-", max_size=24))
def test_no_text_breaks_the_reader(text: str) -> None:
    """Whatever stands beside what."""
    assert all(isinstance(number, str) for number in numbers(text))
