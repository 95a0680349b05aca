"""What is read out of a text."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ext_proc.semantic.marks import is_han, read_marks


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("How do I get to Paris?", {"paris"}),
        ("Paris in spring, or spring in Paris", {"paris"}),
        ("Sure! Press it. Then wait: Nothing happens", set()),
        ("What is an iPhone?", {"iphone"}),
        ("call read_text() of pathlib.Path", {"read_text", "pathlib.path"}),
        ("is gpt-4o better", {"gpt-4o"}),
        ("怎么用Python排序", {"python"}),
        ("Can I, please, come in?", set()),
        ("how do i sort in rust", set()),
    ],
)
def test_names_are_known_by_how_they_are_written(text: str, names: set[str]) -> None:
    """Capitals within a sentence, Latin words in Chinese, identifiers."""
    assert read_marks(text).names == names


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("Can I get a refund?", 0),
        ("Why can't I get a refund?", 1),
        ("Why can’t I get a refund?", 1),
        ("Why is no refund possible?", 1),
        ("可以退款吗", 0),
        ("不可以退款吗", 1),
        ("能不能退款", 0),
        ("是不是没有退款", 1),
        ("有没有博物馆", 0),
        ("非常好", 0),
        ("不好意思，可以退款吗", 0),
        ("特别的", 0),
        ("别关机", 1),
        ("未来的天气", 0),
    ],
)
def test_negations_are_counted(text: str, count: int) -> None:
    """Questions of the kind A-not-A and polite words deny nothing."""
    assert read_marks(text).negations == count


@pytest.mark.parametrize(
    ("text", "script", "language"),
    [
        ("How do I reset my router?", "latin", "en"),
        ("Comment est-ce que je peux réinitialiser ma box avec une clé ?", "latin", "fr"),
        ("Wie kann ich meine Box mit der App zurücksetzen?", "latin", "de"),
        ("怎么重置路由器", "han", ""),
        ("怎么用Python读取JSON", "han", ""),
        ("ルーターをリセットする", "kana", ""),
        ("как сбросить роутер", "cyrillic", ""),
        ("router", "latin", ""),
        ("?!", "", ""),
    ],
)
def test_the_language_is_told_where_it_is_plain(text: str, script: str, language: str) -> None:
    """Script first; languages of Latin script by their commonest words."""
    marks = read_marks(text)
    assert (marks.script, marks.language) == (script, language)


def test_function_words_are_no_content() -> None:
    """What is left is what is asked."""
    assert read_marks("Please, how do I reset my router?").content == ("reset", "router")
    assert read_marks("请问怎么重置我的路由器？").content == tuple("重置路由器")


@settings(max_examples=60)
@given(st.text(max_size=60))
def test_no_text_breaks_the_reader(text: str) -> None:
    """And one text has one reading."""
    assert read_marks(text) == read_marks(text)


def test_only_chinese_signs_are_han() -> None:
    """Not kana, not Latin."""
    assert [is_han(sign) for sign in "中aあ"] == [True, False, False]
