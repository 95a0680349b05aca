"""Token usage out of answers of every sort."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ext_proc.openai.usage import MAX_TOKENS, Usage, estimate_tokens, parse_usage

JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["prompt_tokens", "prompt_tokens_details", "x"]), inner, max_size=3)
    ),
    max_leaves=6,
)


@pytest.mark.parametrize(
    ("document", "usage"),
    [
        pytest.param(
            {"usage": {"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12}},
            Usage(9, 3),
            id="chat",
        ),
        pytest.param({"usage": {"prompt_tokens": 9, "total_tokens": 9}}, Usage(9, 0), id="embeddings"),
        pytest.param(
            {
                "usage": {
                    "prompt_tokens": 9,
                    "completion_tokens": 3,
                    "prompt_tokens_details": {"cached_tokens": 8},
                    "completion_tokens_details": {"reasoning_tokens": 2},
                }
            },
            Usage(9, 3, 8, 2),
            id="details",
        ),
        pytest.param(
            {"usage": {"prompt_tokens": 9, "completion_tokens": 3, "prompt_tokens_details": None}},
            Usage(9, 3),
            id="details-null",
        ),
        pytest.param(
            {"usage": {"prompt_tokens": 9.0, "completion_tokens": 3}}, Usage(9, 3), id="whole-float"
        ),
        pytest.param(
            {"usage": {"prompt_tokens": 9, "completion_tokens": "3"}}, Usage(9, 0), id="text-beside"
        ),
        pytest.param(
            {"usage": {"prompt_tokens": 9, "completion_tokens": -3}}, Usage(9, 0), id="negative-beside"
        ),
        pytest.param({"usage": {"prompt_tokens": 0, "completion_tokens": 0}}, Usage(0, 0), id="zero"),
        pytest.param({"usage": {"prompt_tokens": -1}}, None, id="negative"),
        pytest.param({"usage": {"prompt_tokens": True}}, None, id="boolean"),
        pytest.param({"usage": {"prompt_tokens": "9"}}, None, id="text"),
        pytest.param({"usage": {"prompt_tokens": 1.5}}, None, id="fraction"),
        pytest.param({"usage": {"prompt_tokens": MAX_TOKENS + 1}}, None, id="absurd"),
        pytest.param({"usage": None}, None, id="null"),
        pytest.param({"usage": []}, None, id="list"),
        pytest.param({}, None, id="absent"),
        pytest.param([], None, id="no-object"),
    ],
)
def test_usage_is_read_tolerantly(document: Any, usage: Usage | None) -> None:
    """Believable numbers are taken, junk beside them counts as 0, junk in their place is no usage."""
    assert parse_usage(document) == usage


def test_total() -> None:
    """The total is the sum, whatever the provider wrote."""
    assert Usage(9, 3).total_tokens == 12


@given(JUNK)
def test_no_junk_raises(document: Any) -> None:
    """Whatever a provider answers, usage is a Usage or None."""
    found = parse_usage({"usage": document})
    assert found is None or found.prompt_tokens >= 0


@pytest.mark.parametrize(("size", "tokens"), [(0, 0), (1, 1), (4, 1), (5, 2), (400, 100), (-1, 0)])
def test_estimate_is_a_quarter_rounded_up(size: int, tokens: int) -> None:
    """Four bytes a token, never below what is there."""
    assert estimate_tokens(size) == tokens


def test_what_is_told_early_is_no_last_word() -> None:
    """More has come than that says; less than it says is as told."""
    assert Usage(9, 0, 4, 0).at_least(30) == Usage(9, 30, 4, 0)
    assert Usage(9, 40).at_least(30) == Usage(9, 40)
