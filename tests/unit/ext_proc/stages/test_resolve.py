"""Which Model is meant."""

from __future__ import annotations

import orjson
import pytest

from ext_proc.contract.snapshot import Backend, Degrade, Limits, Model, PolicyLayer, Quota, Tier, Version
from ext_proc.exchange import Answer
from ext_proc.limits.claims import Account, Load
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


class Full:
    """Accounts that are as full as a test says."""

    def __init__(self, **loads: Load) -> None:
        self.loads = loads

    def load(self, account: Account) -> Load:
        """Return it, by what kind of account it is."""
        return self.loads.get(account.key.partition(":")[0], Load(0.0, 0.0))


@pytest.mark.parametrize(
    ("loads", "expected"),
    [
        pytest.param({"model": Load(0.79, 0.0)}, "big", id="not that full"),
        pytest.param({"model": Load(0.8, 0.0)}, "small", id="the Model's limits"),
        pytest.param({"model": Load(0.0, 0.9)}, "small", id="the Model's budget"),
        pytest.param({"tier": Load(1.0, 0.0)}, "big", id="the Tier's own minute is nobody else's matter"),
        pytest.param({"tier": Load(0.0, 0.8)}, "small", id="the caller's budget"),
    ],
)
async def test_degradation_by_load(loads: dict[str, Load], expected: str) -> None:
    """From the share of the Model's limits on that a rule names, or of the caller's budget."""
    limits = Limits(10, tokens_per_day=1_000)
    big = Model("big", VERSIONS, (Degrade("small", load=0.8),), limits=limits)
    policy = snapshot(models={**MODELS, "big": big}, tiers={"free": Tier("free", limits=limits)})
    opened = exchange(policy, {**HELLO, "model": "big"})
    opened.tier = "free"
    counted = Counted()
    assert await Resolve(counted, Full(**loads)).on_request(opened) is None
    assert opened.model is not None
    assert opened.model.name == expected
    alone = exchange(policy, {**HELLO, "model": "big"})
    assert await Resolve(counted).on_request(alone) is None
    assert alone.model is big


@pytest.mark.parametrize(("calls", "expected"), [(3, "big"), (4, "small")])
async def test_degradation_by_the_places_of_backends(calls: int, expected: str) -> None:
    """Where all Backends of the Model have so many; another one's calls do not count."""
    big = Model("big", VERSIONS, (Degrade("small", load=0.8),))
    backends = {"b": Backend("b", "http://h/v1", quota=Quota(concurrency=5))}
    policy = snapshot(models={**MODELS, "big": big}, backends=backends)
    opened = exchange(policy, {**HELLO, "model": "big"})
    await Resolve(Counted(), Full(), {"b": calls, "other": 100}.__getitem__).on_request(opened)
    assert opened.model is not None
    assert opened.model.name == expected
    free = exchange(snapshot(models={**MODELS, "big": big}), {**HELLO, "model": "big"})
    await Resolve(Counted(), Full(), {"b": 100}.__getitem__).on_request(free)
    assert free.model is big


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
