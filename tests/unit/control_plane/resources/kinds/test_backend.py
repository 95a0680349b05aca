"""Backend's own rules."""

from typing import Any

import pytest
from pydantic import ValidationError

from control_plane.resources.kinds.backend import BackendSpec


def test_the_smallest_backend_has_the_documented_defaults() -> None:
    """Only the URL must be written."""
    spec = BackendSpec.model_validate({"url": "https://api.openai.com/v1"})
    assert (spec.default, spec.protocol, spec.http) == (False, "openai", "auto")
    assert (spec.timeouts.connect_ms, spec.timeouts.request_ms) == (5_000, 25_000)
    assert spec.timeouts.stream_idle_ms == 60_000
    assert (spec.credentials, spec.quota, spec.warmup, spec.batch, spec.api_version) == (None,) * 5


@pytest.mark.parametrize(
    "fields",
    [
        {"credentials": {}},
        {"credentials": {"env": "A", "file": "/b"}},
        {"credentials": {"env": "not a name"}},
        {"credentials": {"secretRef": {"name": "s"}}},
        {"credentials": {"secretRef": {"name": "../s", "key": "k"}}},
        {"credentials": {"file": "a\0b"}},
        {"protocol": "anthropic"},
        {"protocol": "azure-openai", "default": True},
        {"apiVersion": "2024-06-01"},
        {"protocol": "azure-openai", "apiVersion": "a b"},
        {"http": "3"},
        {"quota": {"concurrency": 0}},
        {"quota": {"concurrency": 2.5}},
        {"timeouts": {"connect": "0s"}},
        {"default": 1},
    ],
)
def test_contradictions_and_wrong_values_are_refused(fields: dict[str, Any]) -> None:
    """Exactly one way to the key, known enums, sizes of at least one, no azure default."""
    with pytest.raises(ValidationError):
        BackendSpec.model_validate({"url": "http://h", **fields})


@pytest.mark.parametrize(("written", "meant"), [(1.1, "1.1"), (2, "2"), ("auto", "auto")])
def test_an_http_version_may_be_written_as_a_number(written: object, meant: str) -> None:
    """YAML makes a number of an unquoted 1.1."""
    assert BackendSpec.model_validate({"url": "http://h", "http": written}).http == meant
