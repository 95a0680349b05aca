"""Mail addresses in any script, beside words with and without blanks."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ext_proc.redaction.detectors import redact
from ext_proc.redaction.mails import email_spans, is_spaced_letter


def found(text: str) -> list[str]:
    """Return the addresses in `text`."""
    return [text[start:end] for start, end in email_spans(text)]


@pytest.mark.parametrize(
    "address",
    [
        "a.b+c@example.co.uk",
        "jörg.müller@firma.de",
        "ju\u0308rgen@bu\u0308cher.de",
        "x@bücher.de",
        "Ærøskøbing_1@blåbær.no",
        "иван@почта.рф",
        "Οδυσσέας@παράδειγμα.ελ",
        "उदाहरण@उदाहरण.भारत",
        "عنوان@مثال.السعودية",
        "tiếng@việt.vn",
        "x@xn--e1afmkfd.xn--p1ai",
        "用户@例子.公司",
        "用户123@例子.公司",
        "info@例子.公司",
        "x@sub.例子.com",
        "x@例子abc.com",
        "张三@qq.com",
        "张三@example.io",
        "用户@例子.dev",
        "張三@例子.xn--55qx5d",
        "사용자@예시.한국",
        "ไทย@คน.ไทย",
    ],
)
@pytest.mark.parametrize("around", ["{}", "to <{}>, or", "：{}。", "😀{}✉️", "({})", '"{}"', "①{}②"])
def test_an_address_is_found_whole(address: str, around: str) -> None:
    """Letters with accents belong to it, whatever the script; signs and numbers in circles do not."""
    assert found(around.format(address)) == [address]


@pytest.mark.parametrize(
    ("text", "redacted"),
    [
        ("邮箱a@b.com", "邮箱[email]"),
        ("请发邮件到a@b.com谢谢", "请发邮件到[email]谢谢"),
        ("邮箱123456@qq.com或c.d@e.cn。", "邮箱[email]或[email]。"),
        ("a@b.com或访问www.foo.com", "[email]或访问www.foo.com"),
        ("请写信给a@b.com.谢谢", "请写信给[email].谢谢"),
        ("メールはa@b.comです", "メールは[email]です"),
        ("이메일은a@b.com으로", "이메일은[email]으로"),
        ("อีเมลa@b.comครับ", "อีเมล[email]ครับ"),
    ],
)
def test_a_change_from_a_script_without_blanks_is_a_border(text: str, redacted: str) -> None:
    """The words beside a Latin address stay."""
    assert redact(text) == redacted


@pytest.mark.parametrize(
    ("text", "redacted"),
    [
        ("我的邮箱是用户@例子.公司", "[email]"),
        ("你好，我的邮箱是用户@例子.公司", "你好，[email]"),
        ("字" * 100 + "@例子.公司", "字" * 36 + "[email]"),
        ("用户@例子.公司谢谢大家的帮助", "[email]的帮助"),
        ("用户@例子.公司和李四@例子.公司", "[email]"),
        ("a@b.comc@d.com", "[email]"),
    ],
)
def test_more_than_the_address_is_hidden_where_no_one_can_tell(text: str, redacted: str) -> None:
    """Before it at most what a local part may have, behind it at most six characters of the last label."""
    assert redact(text) == redacted


@pytest.mark.parametrize(
    "text",
    [
        "使用@app.route装饰器",
        "参考@main.py修改",
        "加上@torch.no_grad()",
        "请@张三。",
        "a@b.谢",
        "用户@例子。公司",
        "a@-b.com a@b-.com a@b..com @b.com",
        "ü@ @ü @ü.de ü@ü",
    ],
)
def test_what_is_no_address_stays(text: str) -> None:
    """Code, names that are called, and what has no domain."""
    assert found(text) == []


@pytest.mark.parametrize(
    ("text", "redacted"),
    [
        ("j\\u00f6rg.m\\u00fcller@firma.de", "[email]"),
        ("ju\\u0308rgen@b\\u00FCcher.de", "[email]"),
        ("\\u7bb1a@b.cn\\u3002", "\\u7bb1[email]\\u3002"),
    ],
)
def test_letters_as_json_writes_them(text: str, redacted: str) -> None:
    """In a log they are a part of the address, too."""
    assert redact(text) == redacted


@pytest.mark.parametrize(
    ("character", "is_one"),
    [("ü", True), ("д", True), ("\u0308", True), ("用", False), ("，", False), ("①", False), ("a", False)],
)
def test_letters_of_scripts_with_blanks(character: str, is_one: bool) -> None:
    """Beyond ASCII, with the accents that are characters of their own."""
    assert is_spaced_letter(character) == is_one


@given(st.text(alphabet="aü1用\u0308.-_@ ，①😀com", max_size=60))
def test_spans_are_ordered_and_hold_a_sign(text: str) -> None:
    """Whatever the text: apart from each other, and each with an address in it."""
    at = 0
    for start, end in email_spans(text):
        assert at <= start < end <= len(text)
        assert "@" in text[start + 1 : end]
        at = end


@given(st.text(max_size=30), st.text(max_size=30))
def test_an_address_between_blanks_is_always_found(before: str, behind: str) -> None:
    """Whatever stands around it."""
    assert "jörg@bücher.de" in found(f"{before} jörg@bücher.de {behind}")


@pytest.mark.parametrize(
    "unit",
    ["@", "a@", "ü@", "用@", "用a@", "a用", "\u0308@", "@用.", "@a.", "@a用.", "ü@a-", "用@a.com", "."],
)
def test_takes_linear_time(unit: str) -> None:
    """Repetition makes a text longer, not slower by the square."""
    text = unit * (400_000 // len(unit)) + "ü"
    started = time.perf_counter()
    email_spans(text)
    assert time.perf_counter() - started < 10
