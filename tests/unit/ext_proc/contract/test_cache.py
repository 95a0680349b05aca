"""What is seen of caches, put together."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from ext_proc.contract.cache import (
    CacheAnswer,
    CacheEntry,
    CacheQuestion,
    CacheStatistics,
    SemanticStatistics,
    TierStatistics,
    first_entries,
    gathered,
    merged_statistics,
)


def entry(key: str, **more: object) -> CacheEntry:
    """Return an answer that is kept under `key`."""
    blank = CacheEntry(key, "memory", "m", "v", "tenant:a", age_s=1.0, expires_s=9.0)
    return replace(blank, **more)  # type: ignore[arg-type]


def keys(answer: CacheAnswer) -> list[str]:
    """Return the keys of an answer."""
    return [found.key for found in answer.entries]


def test_a_question_narrows_by_all_that_it_names() -> None:
    """And by nothing that it leaves open."""
    assert CacheQuestion().asks_for("ab", "m", "t")
    question = CacheQuestion(key_prefix="a", model="m", tenant="t", after="ab")
    assert question.asks_for("ac", "m", "t")
    for key, model, tenant in (("bc", "m", "t"), ("ac", "n", "t"), ("ac", "m", "u"), ("ab", "m", "t")):
        assert not question.asks_for(key, model, tenant)


def test_what_several_keep_is_there_once() -> None:
    """With the hits of all, as the newest of them says, and the body of whoever tells it."""
    old = entry("a", age_s=9.0, hits=3, body=b"x")
    new = entry("a", age_s=2.0, hits=4)
    for both in ((old, new), (new, old)):
        (found,) = gathered([CacheAnswer((one,)) for one in both], 10).entries
        assert (found.age_s, found.hits, found.body) == (2.0, 7, b"x")


def test_nothing_is_passed_over_behind_an_answer_that_was_cut() -> None:
    """Another's later keys wait for the next page."""
    cut = CacheAnswer((entry("a"), entry("c")), more=True)
    whole = CacheAnswer((entry("b"), entry("d")))
    found = gathered([cut, whole], 10)
    assert (keys(found), found.more) == (["a", "b", "c"], True)
    assert gathered([], 10) == CacheAnswer()


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sets(st.text("abc", min_size=1, max_size=3)), max_size=4), st.integers(1, 4))
def test_pages_of_many_caches_hold_every_key_once(caches: list[set[str]], limit: int) -> None:
    """In the order of the keys, however small the pages are."""
    seen: list[str] = []
    more = True
    while more:
        question = CacheQuestion(after=seen[-1] if seen else "", limit=limit)
        answers = [
            first_entries((entry(key) for key in cache if question.asks_for(key, "m", "tenant:a")), limit)
            for cache in caches
        ]
        page = gathered(answers, limit)
        assert len(page.entries) <= limit
        assert page.entries or not page.more
        seen += keys(page)
        more = page.more
    assert seen == sorted(set().union(*caches))


def test_statistics_are_summed_but_the_size_of_what_is_shared() -> None:
    """Two processors tell the size of the same Redis, each the size of its own memory."""
    one = CacheStatistics(
        tiers=(TierStatistics("memory", 5, 1, 10, 100), TierStatistics("redis", 1, 0, 7, 70)),
        hits=6,
        misses=1,
        saved_prompt_tokens=1,
        saved_completion_tokens=2,
        saved_cost_micros=3,
        saved_ms=4,
        hit_ages=(1, 2),
        semantic=SemanticStatistics(1, 2, 3, 4, 5),
    )
    both = merged_statistics([one, replace(one, hit_ages=(1,))])
    assert both.tiers == (TierStatistics("memory", 10, 2, 20, 200), TierStatistics("redis", 2, 0, 7, 70))
    assert (both.hits, both.misses, both.saved_ms, both.saved_cost_micros) == (12, 2, 8, 6)
    assert (both.hit_ages, both.semantic) == ((2, 2), SemanticStatistics(2, 4, 6, 8, 10))
    assert merged_statistics([]) == CacheStatistics()


def test_what_is_gone_holds_nothing() -> None:
    """And has done what it did."""
    one = CacheStatistics((TierStatistics("memory", 5, 1, 10, 100),), hits=5)
    assert one.of_the_past() == CacheStatistics((TierStatistics("memory", 5, 1),), hits=5)
