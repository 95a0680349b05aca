"""What a call will use, before it is made."""

from __future__ import annotations

from typing import Any

import pytest

from ext_proc.limits.estimates import MODELS, UNLEARNED_OUTPUT, Estimate, Estimates
from ext_proc.openai.paths import Operation
from ext_proc.openai.usage import Usage


def taught(outputs: list[int], *, prompt: int = 50, body_bytes: int = 100) -> Estimates:
    """Return what has seen calls with these outputs."""
    estimates = Estimates()
    for output in outputs:
        estimates.learn("m", body_bytes, Usage(prompt, output))
    return estimates


@pytest.mark.parametrize(
    ("document", "output"),
    [
        ({}, UNLEARNED_OUTPUT),
        ({"max_tokens": 30}, 30),
        ({"max_completion_tokens": 40, "max_tokens": 50}, 40),
        ({"max_tokens": 30, "n": 3}, 90),
        ({"max_tokens": -5}, UNLEARNED_OUTPUT),
        ({"max_tokens": "many", "n": True}, UNLEARNED_OUTPUT),
        ({"max_tokens": 1e300}, UNLEARNED_OUTPUT),
        ({"max_tokens": 1, "n": 10**9}, 128),
    ],
)
def test_nothing_learned_is_the_worst_that_is_allowed(document: dict[str, Any], output: int) -> None:
    """Junk in the request is no number."""
    found = Estimates().estimate("m", Operation.CHAT, document, 400)
    assert (found.prompt, found.output, found.most_output) == (100, output, output)


def test_embeddings_have_no_output() -> None:
    """Only the prompt counts."""
    assert Estimates().estimate("m", Operation.EMBEDDINGS, {"max_tokens": 5}, 40) == Estimate(10, 0, 0)


def test_a_models_own_figures_are_learned() -> None:
    """Tokens a byte on the average of late; a high quantile of the outputs, below what is allowed."""
    estimates = taught([*range(1, 65)])
    found = estimates.estimate("m", Operation.CHAT, {}, 200)
    assert (found.prompt, found.output, found.most_output) == (100, 57, UNLEARNED_OUTPUT)
    assert estimates.estimate("m", Operation.CHAT, {"max_tokens": 20}, 200).output == 20
    assert estimates.estimate("m", Operation.CHAT, {"n": 2}, 200).output == 114
    assert estimates.estimate("other", Operation.CHAT, {}, 200).prompt == 50
    for _ in range(1000):
        estimates.learn("m", 100, Usage(25, 5000))
    found = estimates.estimate("m", Operation.CHAT, {}, 200)
    assert (found.prompt, found.output, found.most_output) == (50, 5000, 5000)


def test_a_few_answers_teach_no_quantile() -> None:
    """Until there are enough the guess stays high."""
    assert taught([1] * 7).estimate("m", Operation.CHAT, {}, 4).output == UNLEARNED_OUTPUT
    assert taught([1] * 8).estimate("m", Operation.CHAT, {}, 4).output == 1


def test_an_answer_in_several_choices_counts_for_one() -> None:
    """Three choices of 300 tokens are 100 each."""
    estimates = Estimates()
    for _ in range(8):
        estimates.learn("m", 100, Usage(10, 300), choices=3)
    assert estimates.estimate("m", Operation.CHAT, {}, 4).output == 100


def test_a_provider_that_lies_bends_nothing_beyond_reason() -> None:
    """A token has a quarter of a byte at least."""
    assert taught([1], prompt=10**9, body_bytes=1).per_byte("m") == 4.0
    assert taught([1], prompt=0, body_bytes=0).per_byte("m") == 0.25


@pytest.mark.parametrize(("limit", "claimed"), [(100, 60), (50, 50), (1_199, 60), (1_200, 20), (10**6, 20)])
def test_a_limit_that_few_calls_fill_is_claimed_by_the_worst(limit: int, claimed: int) -> None:
    """And never more than all of it."""
    assert Estimate(10, 10, 50).claim(limit) == claimed


def test_invented_models_do_not_grow_memory() -> None:
    """Callers choose names."""
    estimates = Estimates()
    for number in range(MODELS + 10):
        estimates.learn(f"m{number}", 100, Usage(1, 1))
    assert len(estimates._models) == 10
