"""What is seen of a cache, as messages and back."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ext_proc.contract import push_pb2
from ext_proc.contract.cache import (
    CacheAnswer,
    CacheEntry,
    CacheQuestion,
    CacheStatistics,
    SemanticStatistics,
    TierStatistics,
)
from ext_proc.contract.cache_wire import (
    MAX_BODY_BYTES,
    MAX_ENTRIES,
    answer_message,
    answer_of,
    question_message,
    question_of,
    statistics_message,
    statistics_of,
)

ENTRY = CacheEntry("ab" * 32, "memory", "m", "v", "tenant:a", 1.5, 8.5, -1.0, 3, 7, "application/json", b"{}")


def test_statistics_come_back_as_they_were() -> None:
    """Every number of them."""
    statistics = CacheStatistics(
        (TierStatistics("memory", 1, 2, 3, 4),), 5, 6, 7, 8, 9, 10, (1, 2), SemanticStatistics(1, 2, 3, 4, 5)
    )
    message = statistics_message(statistics, "e")
    assert message.epoch == "e"
    assert statistics_of(message) == statistics
    assert statistics_of(statistics_message(CacheStatistics(), "")) == CacheStatistics()


@pytest.mark.parametrize(
    "question", [CacheQuestion(), CacheQuestion("ab", "m", "tenant:a", after="cd", limit=3, bodies=True)]
)
def test_a_question_comes_back_as_it_was(question: CacheQuestion) -> None:
    """It is a message that is no snapshot."""
    message = question_message(question, 7)
    assert (message.question.id, message.version) == (7, "")
    assert question_of(message.question) == question


def test_a_question_of_another_kind_is_none() -> None:
    """A later build may ask what this one does not know. A limit is never more than one answer holds."""
    assert question_of(push_pb2.CacheQuestion(id=1)) is None
    asked = question_of(push_pb2.CacheQuestion(kind=push_pb2.CacheQuestion.ENTRIES, limit=10**9))
    assert asked is not None
    assert asked.limit == MAX_ENTRIES


def test_an_answer_comes_back_as_it_was() -> None:
    """An empty body is one; none is none."""
    for body in (b"{}", b"", None):
        answer = CacheAnswer((replace(ENTRY, body=body),), more=True)
        message = answer_message(answer, 7, partial=True)
        assert (message.id, message.partial) == (7, True)
        assert answer_of(message) == answer


def test_bodies_beyond_the_room_are_left_out() -> None:
    """What is known of their answers is not."""
    large = b"x" * (MAX_BODY_BYTES - 1)
    entries = (
        ENTRY,
        replace(ENTRY, key="b", body=large),
        replace(ENTRY, key="c", body=large + b"xx"),
    )
    bodies = [entry.body for entry in answer_of(answer_message(CacheAnswer(entries), 1)).entries]
    assert bodies == [b"{}", None, None]
    whole = answer_of(answer_message(CacheAnswer((replace(ENTRY, body=large),)), 1))
    assert whole.entries[0].body == large


def test_an_answer_is_no_longer_than_the_limit() -> None:
    """The rest is for the next question."""
    entries = tuple(replace(ENTRY, key=f"{number:05}") for number in range(MAX_ENTRIES + 1))
    found = answer_of(answer_message(CacheAnswer(entries), 1))
    assert (len(found.entries), found.more) == (MAX_ENTRIES, True)
