"""Which Model is meant: alias, degradation, or a name that nobody configured."""

from __future__ import annotations

from fnmatch import fnmatchcase

from ext_proc.contract.snapshot import Model
from ext_proc.exchange import Answer, Exchange, Forward, Reason
from ext_proc.pipeline import Decisions, PassingStage
from ext_proc.refusals import no_backend, require_consumer, unknown_model


class Resolve(PassingStage):
    """Fills in `asked_model`, `model` and `policy`; for an unknown name that may pass, `backend` too."""

    name = "resolve"
    reasons = frozenset(
        (
            Reason.CONSUMER_REQUIRED,
            Reason.DEGRADED,
            Reason.NO_BACKEND,
            Reason.UNKNOWN_MODEL,
            Reason.UNKNOWN_MODEL_PASSED,
        )
    )

    def __init__(self, decisions: Decisions) -> None:
        self._decisions = decisions

    async def on_request(self, exchange: Exchange) -> Answer | Forward | None:
        """Refuse an unknown model where the Policy says so; send it to the default Backend otherwise."""
        snapshot = exchange.loaded.snapshot
        asked = exchange.parsed.model
        name = snapshot.aliases.get(asked, asked)
        model = snapshot.models.get(name)
        if model is not None and model.degrade:
            degraded = _degraded(exchange, model)
            if degraded is not model:
                self._decisions.decided(self.name, Reason.DEGRADED)
            model, name = degraded, degraded.name
        exchange.asked_model = asked
        exchange.model = model
        exchange.policy = exchange.loaded.policy(name, exchange.tier)
        refused = require_consumer(exchange, name)
        if refused is not None:
            return refused
        if model is None:
            if exchange.policy.unknown_models == "refuse":
                return unknown_model(asked)
            exchange.backend = exchange.loaded.default_backend
            if exchange.backend is None:
                return no_backend()
            self._decisions.decided(self.name, Reason.UNKNOWN_MODEL_PASSED)
        return None


def _degraded(exchange: Exchange, model: Model) -> Model:
    agent = exchange.head.headers.get("user-agent", "")
    for rule in model.degrade:
        if rule.user_agent is not None and not fnmatchcase(agent, rule.user_agent):
            continue
        if rule.tier is not None and rule.tier != exchange.tier:
            continue
        return exchange.loaded.snapshot.models.get(rule.model, model)
    return model
