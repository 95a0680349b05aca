"""Small bodies as values."""

from datetime import UTC, datetime

import pytest
from pydantic import ValidationError

from control_plane.api.orders import (
    KeyOrder,
    PlayOrder,
    PurgeOrder,
    RotationOrder,
    SecretOrder,
    TokenOrder,
    in_future,
)
from control_plane.auth.roles import Role

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)


def test_what_is_left_out_has_a_default() -> None:
    """A key that does not expire, a day of overlap, a token that may do all its role allows."""
    assert KeyOrder.model_validate({}).expires_at is None
    assert RotationOrder.model_validate({}).overlap_ms == 24 * 3_600_000
    token = TokenOrder.model_validate({"role": "viewer"})
    assert (token.role, token.name, token.scopes, token.expires_at) == (Role.VIEWER, None, (), None)


def test_written_forms_become_values() -> None:
    """Times with their zone, durations, scopes sorted."""
    assert KeyOrder.model_validate({"expiresAt": "2026-01-31T20:00:00+08:00"}).expires_at == NOON
    assert RotationOrder.model_validate({"overlap": "1h30m"}).overlap_ms == 90 * 60_000
    order = TokenOrder.model_validate({"role": "editor", "scopes": ["tiers:read", "models:write"]})
    assert order.scopes == ("models:write", "tiers:read")


@pytest.mark.parametrize(
    ("model", "value"),
    [
        (KeyOrder, {"expiresAt": "2026-01-31"}),
        (KeyOrder, {"expiresAt": 5}),
        (KeyOrder, {"expiresAt": "9999-12-31T23:59:59-12:00"}),
        (KeyOrder, {"expires_at": "2026-01-31T20:00:00Z"}),
        (RotationOrder, {"overlap": 5}),
        (RotationOrder, {"overlap_ms": 5}),
        (TokenOrder, {"role": "viewer", "name": "control plane"}),
        (TokenOrder, {"role": "viewer", "name": "x" * 101}),
        (TokenOrder, {"role": "viewer", "name": "ci\n"}),
        (TokenOrder, {"role": "viewer", "scopes": ["x"]}),
        (SecretOrder, {"values": {"k": "x" * (16 * 1024 + 1)}}),
        (SecretOrder, {"values": {"../k": "x"}}),
    ],
)
def test_what_cannot_be_is_refused(model: type[KeyOrder], value: dict[str, object]) -> None:
    """And no message repeats the value."""
    with pytest.raises(ValidationError) as refused:
        model.model_validate(value)
    assert "input_value" not in str(refused.value)


def test_an_end_is_in_the_future() -> None:
    """None is no end."""
    assert in_future(None, NOON)
    assert not in_future(NOON, NOON)


@pytest.mark.parametrize(
    "value",
    [
        {"all": True},
        {"model": "m"},
        {"model": "m", "version": "v", "tenant": "key:0a", "keyPrefix": "0Af"},
        {"key": "0" * 64},
    ],
)
def test_a_purge_says_what_it_voids(value: dict[str, object]) -> None:
    """Conditions, or all."""
    assert PurgeOrder.model_validate(value).model_dump(by_alias=True, exclude_defaults=True) == value


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ({}, "names nothing"),
        ({"all": True, "key": "0" * 64}, "all does not go with conditions"),
        ({"key": "0" * 64, "keyPrefix": "0"}, "key and keyPrefix do not go together"),
        ({"version": "v"}, "version needs its model"),
    ],
)
def test_an_unclear_purge_is_refused(value: dict[str, object], told: str) -> None:
    """With what is wrong about it."""
    with pytest.raises(ValidationError, match=told):
        PurgeOrder.model_validate(value)


def test_a_prompt_becomes_a_completion() -> None:
    """With what was given and no more; a stream tells its usage."""
    order = PlayOrder.model_validate(
        {"model": "m", "prompt": "p", "system": "s", "maxTokens": 5, "tier": "gold", "key": "ork_k"}
    )
    assert order.completion() == {
        "model": "m",
        "messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "p"}],
        "stream": True,
        "stream_options": {"include_usage": True},
        "max_tokens": 5,
    }
    plain = PlayOrder.model_validate({"model": "m", "prompt": "p", "stream": False})
    assert plain.completion() == {
        "model": "m",
        "messages": [{"role": "user", "content": "p"}],
        "stream": False,
    }


@pytest.mark.parametrize(
    "wrong",
    [
        {"prompt": ""},
        {"key": "a\r\nx: y"},
        {"session": "é"},
        {"cache": "hit"},
        {"key": "x\n"},
        {"maxTokens": 0},
    ],
)
def test_what_is_no_prompt_is_refused(wrong: dict[str, object]) -> None:
    """What goes into a header cannot begin another one."""
    with pytest.raises(ValidationError):
        PlayOrder.model_validate({"model": "m", "prompt": "p", **wrong})
