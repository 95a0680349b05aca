"""Which Model is meant: alias, degradation, or a name that nobody configured."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Protocol

from ext_proc.contract.snapshot import Model
from ext_proc.exchange import Answer, Exchange, Forward, Reason
from ext_proc.limits.claims import Account, Load
from ext_proc.pipeline import Decisions, PassingStage
from ext_proc.refusals import no_backend, require_consumer, unknown_model


class Loads(Protocol):
    """Who knows how full accounts are."""

    def load(self, account: Account) -> Load:
        """Return the largest shares of the account's limits in use, as far as is known here."""
        ...


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

    def __init__(self, decisions: Decisions, loads: Loads | None = None) -> None:
        self._decisions = decisions
        self._loads = loads

    async def on_request(self, exchange: Exchange) -> Answer | Forward | None:
        """Refuse an unknown model where the Policy says so; send it to the default Backend otherwise."""
        snapshot = exchange.loaded.snapshot
        asked = exchange.parsed.model
        name = snapshot.aliases.get(asked, asked)
        model = snapshot.models.get(name)
        if model is not None and model.degrade:
            degraded = self._degraded(exchange, model)
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

    def _degraded(self, exchange: Exchange, model: Model) -> Model:
        agent = exchange.head.headers.get("user-agent", "")
        for rule in model.degrade:
            if rule.user_agent is not None and not fnmatchcase(agent, rule.user_agent):
                continue
            if rule.tier is not None and rule.tier != exchange.tier:
                continue
            if rule.load is not None and self._load(exchange, model) < rule.load:
                continue
            return exchange.loaded.snapshot.models.get(rule.model, model)
        return model

    def _load(self, exchange: Exchange, model: Model) -> float:
        """Return what is in use of the Model's limits, or of the caller's budget of a day if that is more."""
        if self._loads is None or not exchange.loaded.limited:
            return 0.0
        found = 0.0
        for account in exchange.loaded.accounts(exchange.tier, exchange.consumer, model):
            load = self._loads.load(account)
            found = max(found, load.day, load.now if account.is_model else 0.0)
        return found
