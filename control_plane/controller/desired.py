"""The whole of what custom resources want, as the control plane is told it (pure)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import orjson

from control_plane.controller.resources import CustomResource, SecretKey
from control_plane.resources.parsing import API_VERSION


def desired(resources: Iterable[CustomResource], secrets: Mapping[SecretKey, str] | None) -> bytes:
    """Return the body of the mirror's PUT; the same for the same wants in whatever order they come.

    Args:
        resources: every custom resource of every kind.
        secrets: what they name and there is, in base64 as the API server has it; None leaves those that
            were told before as they are.
    """
    documents = [
        {
            "apiVersion": API_VERSION,
            "kind": resource.key.kind,
            "metadata": {"name": resource.key.name},
            "spec": resource.spec,
        }
        for resource in sorted(resources, key=lambda resource: resource.key)
    ]
    if secrets is None:
        return orjson.dumps({"documents": documents})
    grouped: dict[str, dict[str, str]] = {}
    for secret, value in sorted(secrets.items()):
        grouped.setdefault(secret.name, {})[secret.key] = value
    return orjson.dumps({"documents": documents, "secrets": grouped})
