"""What a rollout needs of the parts around it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from ext_proc.agent.resources import ResourceSet
from ext_proc.contract.snapshot import CredentialRef, Snapshot

Secrets = Mapping[tuple[str, str], bytes]
"""Providers' keys that the control plane keeps, by the Secret's name and the key in it."""


class Discovery(Protocol):
    """Envoy, as `ads.DiscoveryServer` serves it."""

    @property
    def current(self) -> ResourceSet:
        """What is served now."""

    def publish(self, resources: ResourceSet) -> None:
        """Serve `resources` from now on."""

    async def accepted(self, type_urls: Iterable[str], *, if_subscribed: bool = False) -> None:
        """Wait until Envoy has acknowledged these types; raise RefusedError when it refused one."""


class Warming(Protocol):
    """Envoy's clusters on their way into use."""

    async def warmed(self, limit_s: float) -> bool:
        """Wait until none is warming."""

    async def asks_a_processor(self, limit_s: float) -> bool:
        """Wait until Envoy sends requests to a processor."""


class Processors(Protocol):
    """The processors of this sidecar."""

    def publish(self, snapshot: Snapshot) -> None:
        """Push `snapshot` to all."""

    def withdraw(self) -> None:
        """Push nothing more."""

    async def taken(self, version: str) -> str | None:
        """Wait until all connected have it, and return None; at once the reason when one refuses it."""

    def held(self) -> set[str]:
        """Return the versions they may still decide by."""


class Keys(Protocol):
    """Where credentials are resolved."""

    def resolve(self, references: Iterable[CredentialRef]) -> dict[CredentialRef, str]:
        """Return the key of each reference that leads to one."""

    def replace(self, secrets: Secrets) -> Secrets:
        """Hold these pushed Secrets instead of those before, which are returned."""


class Reports(Protocol):
    """The way up to the control plane."""

    def acknowledge(self, version: str, oldest_in_use: str) -> None:
        """Report that `version` is in force."""

    def refuse(self, version: str, reason: str) -> None:
        """Report that `version` was refused."""
