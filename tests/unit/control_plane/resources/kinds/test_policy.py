"""Policy's own rules."""

from typing import Any

import pytest
from pydantic import ValidationError

from control_plane.resources.kinds.policy import PolicySpec


def test_defaults_change_no_answer() -> None:
    """Everything that alters an answer is off; what protects is on."""
    spec = PolicySpec.model_validate({})
    assert not any(
        (
            spec.cache.enabled,
            spec.coalesce.enabled,
            spec.session.enabled,
            spec.redaction.prompts,
            spec.require_consumer,
        )
    )
    assert (spec.batch.mode, spec.parameters.temperature, spec.unknown_models) == ("none", None, "pass")
    assert (spec.fail_open, spec.redaction.logs, spec.hold.max_ms) == (True, True, 10_000)
    assert (spec.retry.attempts, spec.retry.base_ms, spec.retry.max_ms, spec.retry.budget) == (
        3,
        1_000,
        8_000,
        0.2,
    )
    assert spec.retry.retry_on == ("connect", "reset", "429", "5xx")
    assert (spec.cache.ttl_ms, spec.cache.memory_entries, spec.cache.memory_bytes) == (
        86_400_000,
        10_000,
        64 << 20,
    )


@pytest.mark.parametrize(
    "spec",
    [
        {"target": {"models": ["a*b"]}},
        {"target": {"models": []}},
        {"target": {"models": "gpt-4"}},
        {"target": {"models": ["m"]}, "failOpen": False},
        {"target": {"tiers": ["t"]}, "failOpen": True},
        {"unknownModels": "maybe"},
        {"cache": {"scope": "world"}},
        {"cache": {"memoryEntries": 0}},
        {"cache": {"memoryBytes": "0B"}},
        {"cache": {"maxTemperature": -1}},
        {"cache": {"semantic": {"maxErrorRate": 1.5}}},
        {"retry": {"attempts": 0}},
        {"retry": {"base": "2s", "max": "1s"}},
        {"retry": {"retryOn": ["200"]}},
        {"retry": {"retryOn": ["sometimes"]}},
        {"retry": {"budget": 2}},
        {"hold": {"max": 10}},
        {"redaction": {"entities": ["phones"]}},
        {"parameters": {"temperature": {"max": 1, "default": 2}}},
        {"parameters": {"topP": {"max": 2}}},
        {"parameters": {"maxTokens": {"max": 0}}},
        {"parameters": {"n": {"max": 1.5}}},
        {"batch": {"mode": "all"}},
        {"batch": {"sendBelow": 0}},
    ],
)
def test_wrong_values_are_refused(spec: dict[str, Any]) -> None:
    """Patterns, enums, ranges and orders; failOpen only for whole workloads."""
    with pytest.raises(ValidationError):
        PolicySpec.model_validate(spec)


@pytest.mark.parametrize("retry", [{"max": "500ms"}, {"base": "9s"}])
def test_a_bound_is_not_compared_with_what_is_left_out(retry: dict[str, Any]) -> None:
    """Another Policy may set that."""
    assert PolicySpec.model_validate({"retry": retry}).retry.model_fields_set == {f"{next(iter(retry))}_ms"}


def test_a_status_may_be_written_as_a_number() -> None:
    """YAML makes a number of an unquoted 429."""
    assert PolicySpec.model_validate({"retry": {"retryOn": [429, "5xx"]}}).retry.retry_on == ("429", "5xx")
