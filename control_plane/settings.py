"""Settings of the control plane, as its command line gives them."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

ADMIN_TOKEN_LINE: Final = "admin token (shown once): "
"""How the one line on stdout begins by which a first start hands over the admin token that it made."""
NOT_APPLIED_LINE: Final = "files not applied: "
"""How the line on stdout begins that says why a start left its files out."""


@dataclass(frozen=True, slots=True)
class PushTls:
    """TLS of the push stream: PEM files. With `client_ca` sidecars have to show a certificate of it."""

    cert: Path
    key: Path
    client_ca: Path | None = None


@dataclass(frozen=True, slots=True)
class ControlPlaneSettings:
    """Settings of one control plane.

    `push_address` is a gRPC address (`unix:/PATH` or `HOST:PORT`). `metrics_port` None serves metrics on
    the API's port only, to whoever has a token. `database` None is the SQLite file in `data_dir`.
    `admin_token` None lets the first start make one. The documents of `files` are applied at the start;
    with `demo` only when nothing is stored yet, but for the Backend, whose port may have changed.
    `playground_proxy` is the proxy (`http://HOST:PORT`) that the playground asks, None for no playground.
    `prometheus` is the URL of the Prometheus that gates of Releases ask, None for none.
    `show_notices` names in the log what the files set that has no effect.
    """

    api_host: str
    api_port: int
    push_address: str
    data_dir: Path = Path(".outrigger")
    push_tls: PushTls | None = None
    metrics_port: int | None = None
    database: str | None = field(default=None, repr=False)
    admin_token: str | None = field(default=None, repr=False)
    files: tuple[Path, ...] = ()
    demo: bool = False
    min_ready_sidecars: int = 0
    log_level: str = "info"
    playground_proxy: str | None = None
    show_notices: bool = True
    prometheus: str | None = None
