"""Bounds on request parameters."""

from __future__ import annotations

from typing import Any

import pytest

from ext_proc.contract.policies import Bound, ParameterPolicy, Policy
from ext_proc.exchange import Answer, Reason, describe
from ext_proc.openai.requests import BadRequest
from ext_proc.stages.clamp import Clamp
from tests.unit.ext_proc.exchanges import HELLO, Counted, exchange

POLICY = Policy(
    parameters=ParameterPolicy(
        temperature=Bound(max=0.3),
        top_p=Bound(default=0.9),
        max_tokens=Bound(max=4096.0, default=256.0),
        n=Bound(max=2),
        forbid=("logit_bias",),
    )
)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param({"temperature": 0.9}, {"temperature": 0.3}, id="capped"),
        pytest.param({"temperature": 0.1}, {"temperature": 0.1}, id="within"),
        pytest.param({"temperature": None}, {"temperature": None}, id="null is left out"),
        pytest.param({}, {"temperature": ..., "top_p": 0.9, "max_tokens": 256}, id="defaults"),
        pytest.param({"max_tokens": 9999}, {"max_tokens": 4096, "max_completion_tokens": ...}, id="old name"),
        pytest.param(
            {"max_completion_tokens": 9999}, {"max_completion_tokens": 4096, "max_tokens": ...}, id="new name"
        ),
        pytest.param({"max_tokens": -1}, {"max_tokens": 4096}, id="without end"),
        pytest.param({"n": 5}, {"n": 2}, id="n"),
    ],
)
async def test_parameters_are_brought_within_bounds(given: dict[str, Any], expected: dict[str, Any]) -> None:
    """`...` means the field is not there. Token counts stay whole numbers."""
    opened = exchange(document={**HELLO, **given})
    opened.policy = POLICY
    assert await Clamp(Counted()).on_request(opened) is None
    document = opened.parsed.document
    for name, value in expected.items():
        assert document.get(name, ...) == value
        assert type(document.get(name, ...)) is type(value)


@pytest.mark.parametrize(
    ("given", "param"),
    [({"temperature": "0.9"}, "temperature"), ({"n": True}, "n"), ({"logit_bias": {}}, "logit_bias")],
)
async def test_what_could_slip_past_a_bound_is_refused(given: dict[str, Any], param: str) -> None:
    """A text that a lenient provider reads as a number, and a forbidden parameter."""
    opened = exchange(document={**HELLO, **given})
    opened.policy = POLICY
    with pytest.raises(BadRequest) as refused:
        await Clamp(Counted()).on_request(opened)
    assert (refused.value.status, refused.value.param) == (400, param)


@pytest.mark.parametrize(
    ("given", "clamped"),
    [
        pytest.param({"temperature": 0.2, "top_p": 0.1, "max_tokens": 5}, "", id="none"),
        pytest.param(
            {"temperature": 2, "top_p": 0.1, "max_completion_tokens": 9999},
            "temperature,max_completion_tokens",
            id="by the caller's names",
        ),
        pytest.param({"temperature": 0}, "top_p,max_tokens", id="defaults, too"),
    ],
)
async def test_the_caller_is_told_what_was_changed(given: dict[str, Any], clamped: str) -> None:
    """In a header, by the access log's metadata or on an answer of our own."""
    opened = exchange(document={**HELLO, **given})
    opened.policy = POLICY
    stage = Clamp(Counted())
    await stage.on_request(opened)
    assert opened.clamped == clamped
    assert dict(describe(opened)).get("clamped", "") == clamped
    answer = stage.on_answer(opened, Answer(200, b"", Reason.SERVED_FROM_CACHE))
    assert answer.headers == ((("x-outrigger-clamped", clamped),) if clamped else ())


async def test_without_bounds_nothing_is_touched() -> None:
    """The body goes on byte for byte."""
    opened = exchange(document={**HELLO, "temperature": "junk"})
    assert await Clamp(Counted()).on_request(opened) is None
    assert not opened.changed


async def test_embeddings_have_no_sampling_parameters() -> None:
    """Defaults would only make the provider refuse them."""
    opened = exchange(document={"model": "m", "input": "a"}, path="/v1/embeddings")
    opened.policy = POLICY
    assert await Clamp(Counted()).on_request(opened) is None
    assert not opened.changed
