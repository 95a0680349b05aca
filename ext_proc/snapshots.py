"""The snapshot in force in this process, and what is derived from it once.

A new snapshot replaces one reference. An exchange holds the one that it began with; the holder counts
who holds what, so that the agent knows when Envoy may forget the routes of an older version.
"""

from __future__ import annotations

from collections.abc import Callable

from ext_proc.contract.policies import Policy, resolve_policy, with_settings
from ext_proc.contract.routes import CallShape, RouteTerms, route_id
from ext_proc.contract.snapshot import Backend, Consumer, Model, Snapshot, Tier, Version
from ext_proc.limits.accounts import accounts_of, limits_anything
from ext_proc.limits.claims import Account

# Callers choose model names; what is remembered per name is bounded.
REMEMBERED = 4096


class Loaded:
    """One snapshot with its memoised derivations and the number of exchanges that hold it."""

    __slots__ = (
        "_accounts",
        "_distinct",
        "_policies",
        "_routes",
        "_versions",
        "default_backend",
        "held",
        "limited",
        "snapshot",
        "tiers",
    )

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self.held = 0
        self.default_backend: Backend | None = (
            snapshot.backends.get(snapshot.default_backend) if snapshot.default_backend else None
        )
        matched = (tier for tier in snapshot.tiers.values() if tier.match_headers)
        self.tiers: tuple[Tier, ...] = tuple(sorted(matched, key=lambda tier: -tier.priority))
        self.limited = limits_anything(snapshot)
        self._accounts: dict[tuple[str, str, str], tuple[Account, ...]] = {}
        self._policies: dict[tuple[str, str], Policy] = {}
        self._versions: dict[tuple[str, str, str], Policy] = {}
        # Names are many, distinct policies are few; each stays one object, so identity can be a key.
        self._distinct: dict[Policy, Policy] = {}
        self._routes: dict[tuple[str, int, CallShape, int], str] = {}

    def policy(self, model: str, tier: str) -> Policy:
        """Return the Policy in force for `model` (a Model's or an invented name) and `tier` ("": none)."""
        key = (model, tier)
        found = self._policies.get(key)
        if found is None:
            resolved = resolve_policy(self.snapshot.policies, model, tier)
            found = self._distinct.setdefault(resolved, resolved)
            if len(self._policies) < REMEMBERED:
                self._policies[key] = found
        return found

    def policy_of(self, model: Model, version: Version, tier: str) -> Policy:
        """Return the Policy in force for calls that `version` of `model` answers; `tier` as for `policy`."""
        if not version.settings:
            return self.policy(model.name, tier)
        key = (model.name, version.name, tier)
        found = self._versions.get(key)
        if found is None:
            resolved = with_settings(self.policy(model.name, tier), version.settings)
            found = self._distinct.setdefault(resolved, resolved)
            if len(self._versions) < REMEMBERED:
                self._versions[key] = found
        return found

    def accounts(self, tier: str, consumer: Consumer | None, model: Model | None) -> tuple[Account, ...]:
        """Return what a call has that is limited; ask only if anything is `limited`."""
        key = (tier, consumer.name if consumer is not None else "", model.name if model is not None else "")
        found = self._accounts.get(key)
        if found is None:
            found = accounts_of(self.snapshot, tier, consumer, model)
            if len(self._accounts) < REMEMBERED:
                self._accounts[key] = found
        return found

    def route(self, backend: Backend, policy: Policy, shape: CallShape, stand_ins: int = 0) -> str:
        """Return the route id for `backend` under `policy`, which must be one that this object returned."""
        key = (backend.name, id(policy), shape, stand_ins)
        found = self._routes.get(key)
        if found is None:
            found = route_id(backend, RouteTerms(policy.retry, policy.hold), shape, stand_ins)
            self._routes[key] = found
        return found


class SnapshotHolder:
    """The snapshot in force, and the older ones that some exchange still holds."""

    def __init__(self, on_oldest_changed: Callable[[str], None] = lambda version: None) -> None:
        """`on_oldest_changed` is called with the version of the oldest snapshot in use when that moves on."""
        self._current: Loaded | None = None
        self._older: list[Loaded] = []
        self.on_oldest_changed = on_oldest_changed

    @property
    def current(self) -> Loaded | None:
        """The snapshot in force; None before the first."""
        return self._current

    def replace(self, snapshot: Snapshot) -> Loaded:
        """Put `snapshot` in force. What an exchange already holds stays as it is."""
        if self._current is not None and self._current.held:
            self._older.append(self._current)
        self._current = Loaded(snapshot)
        return self._current

    def oldest_in_use(self) -> str:
        """Return the version of the oldest snapshot that is in force or held; "" before the first."""
        if self._older:
            return self._older[0].snapshot.version
        return self._current.snapshot.version if self._current is not None else ""

    def acquire(self) -> Loaded | None:
        """Return the snapshot in force, counted as held once more."""
        loaded = self._current
        if loaded is not None:
            loaded.held += 1
        return loaded

    def release(self, loaded: Loaded) -> None:
        """Give back what `acquire` returned."""
        loaded.held -= 1
        if loaded.held == 0 and loaded is not self._current and loaded in self._older:
            was = self.oldest_in_use()
            self._older.remove(loaded)
            if self.oldest_in_use() != was:
                self.on_oldest_changed(self.oldest_in_use())
