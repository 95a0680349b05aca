"""What is one question, and whose."""

from __future__ import annotations

from typing import Any

import pytest

from ext_proc.contract.policies import CachePolicy, Policy
from ext_proc.contract.snapshot import Consumer, Model, Version
from ext_proc.exchange import Exchange
from ext_proc.question import directives, is_shareable, question_key
from tests.unit.ext_proc.exchanges import HELLO, exchange


def asked(document: dict[str, Any] | None = None, scope: str = "tenant", **fields: Any) -> Exchange:
    """Return an exchange whose version is assigned."""
    one = exchange(document=document)
    one.policy = Policy(cache=CachePolicy(scope=scope, max_temperature=0.5))
    one.model = one.loaded.snapshot.models["m"]
    one.version = one.model.versions[0]
    one.backend = one.loaded.snapshot.backends["b"]
    for name, value in fields.items():
        setattr(one, name, value)
    return one


@pytest.mark.parametrize(
    "same",
    [{"stream": True}, {"user": "u"}, {"stream_options": {"include_usage": True}}, {"metadata": {"a": "b"}}],
)
def test_how_it_is_answered_does_not_change_the_question(same: dict[str, Any]) -> None:
    """A stream and a JSON call ask the same."""
    assert question_key(asked({**HELLO, **same})) == question_key(asked())


@pytest.mark.parametrize(
    "other",
    [
        {"document": {**HELLO, "seed": 1}},
        {"tenant": "tenant:other"},
        {"version": Version("v2", "b", "m")},
        {"model": Model("m2", ())},
        {"backend": None},
        {"model": None, "asked_model": "invented"},
    ],
    ids=lambda other: next(iter(other)),
)
def test_another_question_has_another_key(other: dict[str, Any]) -> None:
    """Every field, the tenant, the version and where it goes."""
    assert question_key(asked(**other)) != question_key(asked())


def test_scopes_say_whose_question_it_is() -> None:
    """`global` mixes tenants, `consumer` splits one."""
    one, two = Consumer("a", "t"), Consumer("b", "t")
    assert question_key(asked(scope="global", tenant="x")) == question_key(asked(scope="global", tenant="y"))
    assert question_key(asked(consumer=one)) == question_key(asked(consumer=two))
    assert question_key(asked(scope="consumer", consumer=one)) != question_key(
        asked(scope="consumer", consumer=two)
    )


@pytest.mark.parametrize(
    ("temperature", "shareable"), [(0.5, True), (0.6, False), (1, False), (None, True), ("hot", True)]
)
def test_hot_requests_are_not_shared(temperature: object, shareable: bool) -> None:
    """Their callers want variety."""
    assert is_shareable(asked({**HELLO, "temperature": temperature})) is shareable


@pytest.mark.parametrize(
    ("header", "wishes"), [(None, set()), ("No-Store", {"no-store"}), ("refresh, only", {"refresh", "only"})]
)
def test_wishes_are_a_list(header: str | None, wishes: set[str]) -> None:
    """In any case of letters."""
    headers = {} if header is None else {"x-outrigger-cache": header}
    assert directives(exchange(headers=headers)) == wishes
