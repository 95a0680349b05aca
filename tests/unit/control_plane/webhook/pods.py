"""Pods and settings that the tests of injection share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import jsonpatch

from control_plane.webhook.patch import Injection, Skipped, inject
from control_plane.webhook.settings import InjectionSettings
from control_plane.webhook.shape import check_pod
from tests.harness.kubernetes_schemas import check

AUTHORITY = "-----BEGIN CERTIFICATE-----\nabc\n-----END CERTIFICATE-----\n"
SETTINGS = InjectionSettings(
    "outrigger-push.mesh.svc:9900",
    authority=AUTHORITY,
    image="registry.example/outrigger:1",
    own_namespace="mesh",
    version="1",
)
SCHEMAS = ("1.36", "1.37")


def pod(spec: Mapping[str, Any] | None = None, **metadata: Any) -> dict[str, Any]:
    """Return a pod with one container, `spec` and `metadata` put over it."""
    containers = [{"name": "app", "image": "app:1"}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "checkout", **metadata},
        "spec": {"containers": containers, **(spec or {})},
    }


def injected(
    original: dict[str, Any], settings: InjectionSettings = SETTINGS, *, schemas: Iterable[str] = SCHEMAS
) -> dict[str, Any]:
    """Return `original` with its pair: patched by a strict library, and valid to Kubernetes' own schemas."""
    decided = inject(check_pod(original), "shop", settings)
    assert isinstance(decided, Injection), decided
    result = jsonpatch.JsonPatch(list(decided.patch)).apply(original)
    assert result == decided.pod
    for version in schemas:
        check(result, version)
    return dict(result)


def skipped(
    original: dict[str, Any], settings: InjectionSettings = SETTINGS, namespace: str = "shop"
) -> Skipped:
    """Return why `original` has no pair."""
    decided = inject(check_pod(original), namespace, settings)
    assert isinstance(decided, Skipped), decided
    return decided


def environment(container: Mapping[str, Any]) -> dict[str, Any]:
    """Return the variables of a container that have plain values."""
    return {item["name"]: item["value"] for item in container.get("env") or () if "value" in item}
