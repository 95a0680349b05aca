"""Snapshot → Envoy secrets (pure): providers' keys and the authorities that sign providers' certificates.

A secret holds the whole value of the header it goes into. They reach Envoy over SDS only, on a Unix socket,
and are never written to disk.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any, Final

from ext_proc.contract.routes import cluster_name
from ext_proc.contract.snapshot import Backend, CredentialRef, Snapshot

Json = dict[str, Any]
SECRET_TYPE: Final = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret"
AUTHORITIES: Final = "outrigger.authorities"


def secret_name(backend: Backend) -> str:
    """Return the name of the secret that holds the key of `backend`."""
    return f"key.{cluster_name(backend)}"


def credential_header(backend: Backend) -> str:
    """Return the header that carries the key of `backend`."""
    return "api-key" if backend.protocol == "azure-openai" else "authorization"


def render_secrets(
    snapshots: Sequence[Snapshot], keys: Mapping[CredentialRef, str], authorities: bytes
) -> dict[str, Json]:
    """Return the secrets of all `snapshots`, by name.

    Args:
        snapshots: the snapshots in use, oldest first.
        keys: what each reference resolved to. A reference without a key gets an empty secret: its Backend
            is called without a key, and says 401 itself.
        authorities: PEM certificates that providers' certificates are verified against.
    """
    secrets: dict[str, Json] = {
        AUTHORITIES: {
            "@type": SECRET_TYPE,
            "name": AUTHORITIES,
            "validation_context": {
                "trusted_ca": {"inline_bytes": base64.b64encode(authorities).decode("ascii")}
            },
        }
    }
    for snapshot in snapshots:
        for backend in snapshot.backends.values():
            if backend.credential is None:
                continue
            key = keys.get(backend.credential, "")
            value = f"Bearer {key}" if key and credential_header(backend) == "authorization" else key
            name = secret_name(backend)
            secrets[name] = {
                "@type": SECRET_TYPE,
                "name": name,
                "generic_secret": {"secret": {"inline_string": value}},
            }
    return secrets
