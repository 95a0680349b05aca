"""What must never be taken for the same question, and what may."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ext_proc.semantic.marks import read_marks
from ext_proc.semantic.veto import Veto, is_substitution, veto
from tests.data.paraphrases import facts


def told_apart(one: str, other: str) -> Veto | None:
    """Return the veto between two texts, which is the same both ways."""
    there, back = veto(read_marks(one), read_marks(other)), veto(read_marks(other), read_marks(one))
    assert (there is None) == (back is None)
    return there


@pytest.mark.parametrize(
    ("one", "other", "reason"),
    [
        ("Is luggage of 5 kg allowed?", "Is luggage of 50 kg allowed?", Veto.NUMBER),
        ("Is 5 kg allowed?", "Is 5 lb allowed?", Veto.NUMBER),
        ("What is new in Python 3.1?", "What is new in Python 3.10?", Veto.NUMBER),
        ("Open on Monday?", "Open on Sunday?", Veto.NUMBER),
        ("What happened in 1989?", "What happened in 1998?", Veto.NUMBER),
        ("How do I sort in Java?", "How do I sort in Rust?", Veto.NAME),
        ("From Paris to Rome?", "From Rome to Paris?", Veto.NAME),
        ("from paris to rome, how long?", "from rome to paris, how long?", Veto.DIRECTION),
        ("Explain user_id please", "Explain user_name please", Veto.NAME),
        ('What does "to table" mean?', 'What does "to shelve" mean?', Veto.QUOTE),
        ("Can I get a refund?", "Can I not get a refund?", Veto.NEGATION),
        ("Is it safe with milk?", "Is it safe without milk?", Veto.NEGATION),
        ("How do I enable it on my phone?", "What disables this, my phone?", Veto.OPPOSITE),
        ("How do I turn on Bluetooth?", "How can I turn off Bluetooth?", Veto.OPPOSITE),
        ("the highest mountain of all", "which mountain is lowest of all", Veto.OPPOSITE),
        ("How do I reset my router?", "How can I reset my printer?", Veto.SUBSTITUTION),
        ("How do I reset my router?", "怎么重置我的路由器？", Veto.LANGUAGE),
        (
            "What is the price of the phone?",
            "Quel est le prix de ma montre dans la boutique",
            Veto.LANGUAGE,
        ),
        ("5公斤的行李可以吗", "50公斤的行李可以吗", Veto.NUMBER),
        ("三天后可以退款吗", "三十天后可以退款吗", Veto.NUMBER),
        ("明天的天气", "昨天的天气", Veto.NUMBER),
        ("用Python怎么排序", "用Java怎么排序", Veto.NAME),
        ("从巴黎到罗马的票多少钱", "从罗马到巴黎的票多少钱", Veto.DIRECTION),
        ("从奥斯陆到柏林要多久", "请问从柏林到奥斯陆需要多长时间", Veto.DIRECTION),
        ("可以退款吗", "不可以退款吗", Veto.NEGATION),
        ("怎么打开蓝牙", "如何关闭蓝牙", Veto.OPPOSITE),
        ("怎么取消会员", "怎么续订会员", Veto.OPPOSITE),
        ("怎么重置路由器", "如何重置打印机", Veto.SUBSTITUTION),
        ("怎么关电视机", "怎么关扫地机器人", Veto.SUBSTITUTION),
        ("《活着》讲了什么", "《围城》讲了什么", Veto.QUOTE),
    ],
)
def test_what_differs_in_a_detail_is_told_apart(one: str, other: str, reason: Veto) -> None:
    """Numbers, units, dates, names, the way back, quotes, negation, opposites, one word for another."""
    assert told_apart(one, other) is reason


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("How do I reset my router?", "Hi, how can I reset the router?"),
        ("How do I reset my router?", "What is the way to reset my router? Thanks!"),
        ("Is luggage of 5 kg allowed?", "May I bring five kilograms of luggage?"),
        ("How do I sort a list in Rust?", "in rust, how is a list sorted"),
        ("Why can I not get a refund?", "Why don't I get a refund?"),
        ("How do I turn on Bluetooth?", "What is the way to turn Bluetooth on?"),
        ("从巴黎到罗马的票多少钱", "请问，巴黎到罗马的票价是多少？"),
        ("六个月后可以退款吗", "请问6个月后能退款吗"),
        ("能不能冷冻炒饭", "炒饭可以冷冻吗"),
        ("怎么重置我的路由器", "你好，请问如何重置路由器？谢谢"),
        ("在Rust里怎么给列表排序", "如何用rust对列表排序"),
    ],
)
def test_the_same_in_other_words_passes(one: str, other: str) -> None:
    """Otherwise nothing would ever be found."""
    assert told_apart(one, other) is None


@pytest.mark.parametrize("language", ["en", "zh"])
def test_one_wording_of_two_facts_is_told_apart(language: str) -> None:
    """Of the shipped set: a wording and itself pass, the same wording of another fact never does."""
    by_intent: dict[str, list[str]] = {}
    for fact in facts(language):
        by_intent.setdefault(fact.name.split(" ")[0], []).append(fact.wordings[0])
    for texts in by_intent.values():
        assert told_apart(texts[0], texts[0]) is None
        assert all(told_apart(texts[0], text) is not None for text in texts[1:]), texts


@settings(max_examples=60)
@given(st.text(max_size=30), st.text(max_size=30))
def test_a_veto_goes_both_ways(one: str, other: str) -> None:
    """Whoever was first."""
    told_apart(one, other)


def test_a_text_made_for_it_holds_nobody_up() -> None:
    """Comparing two takes the time of reading them: a second would be ten thousand times as long."""
    one, other = read_marks("一二三啊" * 250), read_marks("啊三二一" * 249)
    began = time.perf_counter()
    veto(one, other)
    is_substitution(one.content, other.content)
    assert time.perf_counter() - began < 0.2


def test_an_addition_is_no_substitution() -> None:
    """Texts of which one says more are left to their similarity; those that share nothing are not."""
    assert is_substitution(("a", "b"), ("c", "d"))
    assert not is_substitution((), ("c",))
    assert is_substitution(("a", "b"), ("a", "d"))
    assert not is_substitution(("a", "b"), ("a", "b", "c"))
