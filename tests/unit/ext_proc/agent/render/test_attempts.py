"""The script of an attempt, run by the same kind of Lua that Envoy runs it by."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lupa.luajit21 import LuaRuntime

from ext_proc.agent.render.attempts import attempt_terms, attempts_filter, attempts_script
from ext_proc.contract.policies import HoldPolicy, RetryPolicy
from ext_proc.contract.routes import RouteTerms
from ext_proc.openai.documents import decode, encode
from ext_proc.openai.ratelimits import parse_hints
from ext_proc.stages.route import ask_for_usage
from tests.unit.ext_proc.openai.test_ratelimits import NOW, RESET_CASES, RETRY_AFTER_CASES

EXPORTED = """
return {
  reset_s = reset_s, refusal_wait_s = refusal_wait_s, with_member = with_member, without_usage = without_usage
}"""
# ISO 8601 has more forms than providers use; the script reads the extended one.
NAMES = ("retry-after", "retry-after-ms", "x-ratelimit-reset-requests", "x-ratelimit-reset-tokens")
REMAINING = ("x-ratelimit-remaining-requests", "x-ratelimit-remaining-tokens")


@pytest.fixture(scope="module")
def script() -> Any:
    """The script's functions."""
    return LuaRuntime().execute(attempts_script() + EXPORTED)


def getter(headers: dict[str, str]) -> Any:
    """Return what reads a header in the script."""
    return headers.get


@pytest.mark.parametrize(("headers", "wait"), RETRY_AFTER_CASES)
def test_retry_after(script: Any, headers: dict[str, str], wait: float | None) -> None:
    """It is read as the processor reads it."""
    assert script.refusal_wait_s(getter(headers), NOW) == pytest.approx(wait)


@pytest.mark.parametrize(("text", "wait"), RESET_CASES)
def test_resets(script: Any, text: str | None, wait: float | None) -> None:
    """So are the resets."""
    assert script.reset_s(text, NOW) == pytest.approx(wait, abs=1e-3 if wait else None)


@given(
    st.dictionaries(
        st.sampled_from(NAMES), st.sampled_from(["1", "2s", "6m0s", "-1", "", "x", "90", "1500ms"])
    ),
    st.dictionaries(st.sampled_from(REMAINING), st.sampled_from(["0", "5", "", "x"])),
)
def test_which_hint_counts(script: Any, waits: dict[str, str], left: dict[str, str]) -> None:
    """Of several, both choose the same."""
    headers = waits | left
    assert script.refusal_wait_s(getter(headers), NOW) == pytest.approx(parse_hints(headers, NOW).wait_s)


TEXTS = st.text(max_size=8)
VALUES = st.recursive(
    TEXTS | st.integers() | st.booleans() | st.none(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS | st.just("model"), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(TEXTS, VALUES, max_size=4), TEXTS, st.booleans(), st.sampled_from([None, 1]))
def test_only_the_bodys_own_model_is_replaced(
    script: Any, rest: dict[str, Any], model: str, ascii_only: bool, indent: int | None
) -> None:
    """Whatever else is in the body, nested models among it, stays as it was, byte for byte."""
    document = {"a": 1, **rest, "model": model, "z": [{"model": model}, "model", {"x": "model"}]}
    text = json.dumps(document, ensure_ascii=ascii_only, indent=indent)
    changed = script.with_member(text, "model", json.dumps("other"))
    assert json.loads(changed) == {**document, "model": "other"}
    assert len(changed) == len(text) - len(json.dumps(model, ensure_ascii=ascii_only)) + len('"other"')


@pytest.mark.parametrize("key", ["\\u006dodel", "m\\u006Fdel", "\\u006d\\u006f\\u0064\\u0065\\u006c"])
def test_an_escaped_key_is_the_same_key(script: Any, key: str) -> None:
    """However it is spelt, a stand-in gets its own model."""
    others = '"\\\\u006dodel": "m", "\\u006dodels": "m", "x": {"\\u006dodel": "m"}'
    changed = script.with_member(f'{{{others}, "{key}": "m"}}', "model", '"other"')
    assert changed == f'{{{others}, "{key}": "other"}}'


def test_of_doubled_models_none_is_left(script: Any) -> None:
    """Servers differ in which of them counts."""
    assert (
        script.with_member('{"model":"a", "model" : "b"}', "model", '"c"') == '{"model":"c", "model" : "c"}'
    )


@given(st.dictionaries(TEXTS, VALUES, max_size=4))
def test_only_what_the_mesh_has_asked_is_taken_out(script: Any, rest: dict[str, Any]) -> None:
    """The body is then, byte for byte, the one before that; another one stays."""
    document = decode(json.dumps({"model": "m", **rest}).encode())
    before = encode(document).decode()
    assert ask_for_usage(document)
    assert script.without_usage(encode(document).decode()) == before
    assert script.without_usage(before) == before
    elsewhere = '{"stream_options":{"include_usage":true},"model":"m"}'
    assert script.without_usage(elsewhere) == elsewhere


@pytest.mark.parametrize(
    "text", ["", "{", '{"model', '{"model":', '{"model":"a', '{"model":5}', "[]", '{"\\']
)
def test_what_is_no_body_stays(script: Any, text: str) -> None:
    """Nothing is made of it, and nothing hangs."""
    assert script.with_member(text, "model", '"c"') == text


def test_the_routes_terms_are_told() -> None:
    """Statuses by name, the longest wait, and codes for which others stand in."""
    terms = RouteTerms(RetryPolicy(retry_on=("connect", "429", "content-filter")), HoldPolicy(500))
    assert attempt_terms(terms)["filter_metadata"]["envoy.filters.http.lua"] == {
        "statuses": {"429": True},
        "hold_ms": 500,
        "stand_in_on": ["content_filter"],
    }


def test_the_filter_carries_the_script() -> None:
    """Whole, so that Envoy needs no file."""
    script = attempts_filter()["typed_config"]["extension_config"]["typed_config"]
    source = script["default_source_code"]["inline_string"]
    assert "function envoy_on_response" in source
