"""Which Model is meant: alias, degradation, or a name that nobody configured."""

from __future__ import annotations

from collections.abc import Callable
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

    def __init__(
        self,
        decisions: Decisions,
        loads: Loads | None = None,
        under_way: Callable[[str], int] = lambda backend: 0,
    ) -> None:
        """`under_way` tells how many calls there are at the moment to a Backend that has a quota."""
        self._decisions = decisions
        self._loads = loads
        self._under_way = under_way

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
        """Return what is in use of the Model's limits, of its Backends' places, or of the caller's budget.

        Whichever is most.
        """
        found = self._places_in_use(exchange, model)
        if self._loads is None or not exchange.loaded.limited:
            return found
        for account in exchange.loaded.accounts(exchange.tier, exchange.consumer, model):
            load = self._loads.load(account)
            found = max(found, load.day, load.now if account.is_model else 0.0)
        return found

    def _places_in_use(self, exchange: Exchange, model: Model) -> float:
        backends = exchange.loaded.snapshot.backends
        places = used = 0
        for name in {version.backend for version in model.versions if version.weight > 0}:
            backend = backends.get(name)
            if backend is None or backend.quota.concurrency is None:
                return 0.0  # one has room without end
            places += backend.quota.concurrency
            used += self._under_way(name)
        return used / places if places else 0.0
