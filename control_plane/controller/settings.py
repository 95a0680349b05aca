"""Settings of the controller, as its command line gives them."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class ControllerSettings:
    """Settings of one replica of the controller.

    `kubeconfig` None finds the cluster by `KUBECONFIG`, else the pod's own. `server` is the URL of the
    control plane's API, `token` one that may write there. `namespace` has the Lease and the Secrets.
    `identity` is unlike every other replica's. `ca` is the authority of the server's certificate, None for
    the public ones.
    """

    server: str
    token: str = field(repr=False)
    namespace: str
    identity: str
    health_port: int
    bind: str = "127.0.0.1"
    kubeconfig: Path | None = None
    ca: Path | None = None
    log_level: str = "info"
