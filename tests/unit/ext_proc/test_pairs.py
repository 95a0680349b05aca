"""Two calls of one question, compared."""

from __future__ import annotations

import orjson

from ext_proc.contract.buckets import bucket
from ext_proc.contract.comparisons import Comparison, Likeness, Outcomes
from ext_proc.openai.paths import Operation
from ext_proc.openai.responses import parse_completion
from ext_proc.pairs import Came, cache_compared, compared


def answer(text: str, *, reason: str = "stop", tokens: int = 5) -> bytes:
    """Return a chat answer."""
    choice = {"index": 0, "message": {"content": text}, "finish_reason": reason}
    return orjson.dumps(
        {"choices": [choice], "usage": {"prompt_tokens": 3, "completion_tokens": tokens, "total_tokens": 8}}
    )


def came(text: str, *, reason: str = "stop", seconds: float = 0.5, first: float | None = None) -> Came:
    """Return a call that was answered."""
    body = answer(text, reason=reason)
    return Came(200, seconds, first, body, parse_completion(Operation.CHAT, body))


def test_two_answers_are_compared_in_full() -> None:
    """Times, tokens, lengths, words and why they ended."""
    found = compared(Operation.CHAT, came("yes it is"), came("yes it is not", reason="length", first=0.2))
    assert found.likeness == Likeness(
        compared=1, agreed=1, similarity_milli=857, old_chars=9, new_chars=13, other_finish=1
    )
    assert found.old == Outcomes(
        calls=1, input_tokens=3, output_tokens=5, duration={bucket(0.5): 1}, output={bucket(0.005): 1}
    )
    assert found.new.first_byte == {bucket(0.2): 1}


def test_a_call_without_an_answer_is_an_error_of_its_version() -> None:
    """A refusal, a fault, and a 200 that is none; nothing of it is compared but the class of its status."""
    cut = Came(200, 0.5)
    for other, differs in ((Came(500, 0.1), 1), (Came(429, 0.1), 1), (cut, 0)):
        found = compared(Operation.CHAT, came("yes"), other)
        assert (found.old.errors, found.new, found.likeness) == (
            0,
            Outcomes(calls=1, errors=1),
            Likeness(other_status=differs),
        )


def test_embeddings_are_compared_by_all_but_their_vectors() -> None:
    """Two models' vectors have nothing in common."""
    body = orjson.dumps({"data": [{"index": 0, "embedding": [1.0]}]})
    one = Came(200, 0.5, None, body, parse_completion(Operation.EMBEDDINGS, body))
    found = compared(Operation.EMBEDDINGS, one, one)
    assert (found.new.errors, found.new.duration, found.likeness) == (0, {bucket(0.5): 1}, Likeness())


def test_what_the_cache_knows_is_compared_by_its_words() -> None:
    """What is no text is not."""
    same, other = answer("yes"), answer("no")
    assert cache_compared(Operation.CHAT, same, same).likeness == Likeness(cache_compared=1)
    assert cache_compared(Operation.CHAT, same, other).likeness.cache_disagreed == 1
    assert cache_compared(Operation.CHAT, same, b"{}") == Comparison()
