"""Model's own rules."""

from typing import Any

import pytest
from pydantic import ValidationError

from control_plane.resources.kinds.model import ModelSpec


def model(*versions: dict[str, Any], **fields: Any) -> ModelSpec:
    """Return a Model with `versions` of Backend b."""
    return ModelSpec.model_validate(
        {"versions": [{"backend": "b", **version} for version in versions], **fields}
    )


def test_the_smallest_model_has_the_documented_defaults() -> None:
    """A version needs a name and a Backend; its weight is 100."""
    spec = model({"name": "v"})
    assert (spec.versions[0].weight, spec.versions[0].upstream_model) == (100, None)
    assert (spec.aliases, spec.fallbacks, spec.degrade) == ((), (), ())


def test_weights_are_any_numbers_of_at_least_zero() -> None:
    """They are normalised later; one of them may be nothing."""
    assert [
        version.weight for version in model({"name": "a", "weight": 0}, {"name": "b", "weight": 0.5}).versions
    ]


@pytest.mark.parametrize("weight", [-1, "5", True, float("nan"), float("inf"), None, [1]])
def test_a_weight_that_is_no_share_is_refused(weight: object) -> None:
    """Negative, non-numeric and endless weights."""
    with pytest.raises(ValidationError):
        model({"name": "a", "weight": weight}, {"name": "b"})


@pytest.mark.parametrize(
    ("versions", "fields"),
    [
        ([{"name": "a", "weight": 0}, {"name": "b", "weight": 0}], {}),
        ([{"name": "a"}, {"name": "a"}], {}),
        ([], {}),
        ([{"name": "a"}], {"degrade": [{"model": "m"}]}),
        ([{"name": "a"}], {"aliases": [""]}),
        ([{"name": "a b"}], {}),
        ([{"name": "a", "upstreamModel": "gpt\n"}], {}),
        ([{"name": "a", "upstreamModel": "g\0pt"}], {}),
    ],
)
def test_a_model_that_nothing_could_serve_is_refused(
    versions: list[dict[str, Any]], fields: dict[str, Any]
) -> None:
    """All-zero weights, double names, no versions, a degrade rule without a condition, half a name."""
    with pytest.raises(ValidationError):
        model(*versions, **fields)
