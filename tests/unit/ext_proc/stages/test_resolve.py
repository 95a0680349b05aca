"""Which Model is meant."""

from __future__ import annotations

import orjson
import pytest

from ext_proc.contract.snapshot import Degrade, Model, PolicyLayer, Version
from ext_proc.exchange import Answer
from ext_proc.stages.resolve import Resolve
from tests.unit.ext_proc.exchanges import HELLO, Counted, exchange, snapshot

VERSIONS = (Version("v1", "b", "m"),)
MODELS = {
    "big": Model("big", VERSIONS, (Degrade("small", user_agent="*Mobile*"), Degrade("tiny", tier="free"))),
    "small": Model("small", VERSIONS),
    "tiny": Model("tiny", VERSIONS),
}


@pytest.mark.parametrize(
    ("asked", "user_agent", "tier", "expected"),
    [
        pytest.param("big", "curl", "", "big", id="as asked"),
        pytest.param("alias", "curl", "", "big", id="by alias"),
        pytest.param("big", "Mozilla (Mobile)", "", "small", id="degraded by User-Agent"),
        pytest.param("alias", "x Mobile y", "free", "small", id="the first rule that matches"),
        pytest.param("big", "curl", "free", "tiny", id="degraded by tier"),
    ],
)
async def test_alias_and_degradation(asked: str, user_agent: str, tier: str, expected: str) -> None:
    """Aliases first, then the Model's degrade rules in order."""
    policy = snapshot(models=MODELS, aliases={"alias": "big"})
    opened = exchange(policy, {**HELLO, "model": asked}, {"user-agent": user_agent})
    opened.tier = tier
    assert await Resolve(Counted()).on_request(opened) is None
    assert opened.model is not None
    assert opened.model.name == expected


async def test_an_unknown_model_goes_to_the_default_backend() -> None:
    """The default is to pass it as it is."""
    opened = exchange(document={**HELLO, "model": "invented"})
    assert await Resolve(Counted()).on_request(opened) is None
    assert opened.model is None
    assert opened.backend is opened.loaded.default_backend


@pytest.mark.parametrize(
    ("policy", "status", "code"),
    [
        pytest.param({"default_backend": None}, 503, "no_backend", id="nowhere to go"),
        pytest.param(
            {"policies": (PolicyLayer("p", settings={"unknown_models": "refuse"}),)},
            404,
            "model_not_found",
            id="refused by policy",
        ),
        pytest.param(
            {"policies": (PolicyLayer("p", settings={"require_consumer": True}),)},
            401,
            "invalid_api_key",
            id="a Consumer is required",
        ),
    ],
)
async def test_refusals(policy: dict[str, object], status: int, code: str) -> None:
    """Each with its own status and code."""
    answer = await Resolve(Counted()).on_request(exchange(snapshot(**policy), {**HELLO, "model": "invented"}))
    assert isinstance(answer, Answer)
    assert (answer.status, orjson.loads(answer.body)["error"]["code"]) == (status, code)
