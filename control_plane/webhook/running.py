"""The control plane's part in its cluster, put together: reviews, certificate, identity, missed pods.

`wiring` runs this; what each part does is its own.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

import uvicorn
from prometheus_client.registry import Collector
from structlog.typing import FilteringBoundLogger

from control_plane.auth.service_accounts import ServiceAccounts
from control_plane.auth.throttle import Throttle
from control_plane.kubernetes_client import Kubernetes
from control_plane.webhook.keeping import CertificateKeeper, Files
from control_plane.webhook.missed import MissedPods
from control_plane.webhook.names import workload_of
from control_plane.webhook.serving import Reviews
from control_plane.webhook.settings import InjectionSettings, WebhookSettings
from control_plane.webhook.tls import ReloadedTls

STOP_S = 2
TLS_FOLDER = "tls"

S = TypeVar("S", bound=uvicorn.Server)
Background = Callable[[], Coroutine[Any, Any, None]]


class InCluster:
    """What the control plane does in a cluster. Use `prepare` before all else.

    Args:
        settings: what is asked for.
        kubernetes: the API server; None where nothing needs it.
        data_dir: where the self-managed certificate's files are.
        now: the time of day.
        log: where trouble is told.
    """

    def __init__(
        self,
        settings: WebhookSettings,
        kubernetes: Kubernetes | None,
        *,
        data_dir: Path,
        now: Callable[[], datetime],
        log: FilteringBoundLogger,
    ) -> None:
        self._settings = settings
        self._log = log
        self._files = Files(data_dir / TLS_FOLDER)
        self._authority: tuple[float, str] | None = None
        self._reviews = Reviews(self._injection, clock=time.perf_counter, log=log)
        self._tls: ReloadedTls | None = None
        self._keeper = self._missed = self.accounts = None
        if kubernetes is None:
            return
        if settings.self_managed:
            self._keeper = CertificateKeeper(
                kubernetes,
                namespace=settings.namespace or "default",
                secret=settings.secret,
                names=settings.names,
                registration=settings.registration,
                files=self._files,
                now=now,
                log=log,
            )
        if settings.port is not None:
            self._missed = MissedPods(kubernetes, self._injection, log)
        if settings.token_review:
            self.accounts = ServiceAccounts(
                kubernetes,
                workload_of,
                throttle=Throttle(time.monotonic),
                clock=time.monotonic,
                now=time.time,
            )

    async def prepare(self) -> None:
        """Have the certificate.

        Raises:
            KubernetesError: it is self-managed, and the API server does not give it.
            CertificateFilesError: the named files cannot be used.
        """
        if self._keeper is not None:
            await self._keeper.begin()
        if self._settings.port is not None:
            self._tls = ReloadedTls(
                self._settings.certificate or self._files.certificate,
                self._settings.key or self._files.key,
                self._log,
            )

    @property
    def own_files(self) -> Files | None:
        """The self-managed certificate, for the push stream too; None without one."""
        return self._files if self._keeper is not None else None

    @property
    def series(self) -> Sequence[Collector]:
        """The metrics."""
        if self._settings.port is None:
            return ()
        return (*self._reviews.series, *(self._missed.series if self._missed is not None else ()))

    @property
    def background(self) -> Sequence[Background]:
        """What runs beside the servers until cancelled."""
        parts = (self._keeper, self._tls, self._missed)
        return tuple(part.run for part in parts if part is not None)

    def server(self, make: Callable[[uvicorn.Config], S]) -> tuple[S, int] | None:
        """Return the server of reviews and its port; None without one."""
        if self._settings.port is None or self._tls is None:
            return None
        config = uvicorn.Config(
            self._reviews.application,
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            lifespan="off",
            timeout_graceful_shutdown=STOP_S,
        )
        config.load()
        config.ssl = self._tls.context
        return make(config), self._settings.port

    def _injection(self) -> InjectionSettings:
        """Return what pairs are made of now: the authority of our own certificate may have been renewed."""
        injection = self._settings.injection
        if injection.authority is not None or self._keeper is None:
            return injection
        changed = self._files.authority.stat().st_mtime
        if self._authority is None or self._authority[0] != changed:
            self._authority = (changed, self._files.authority.read_text(encoding="ascii"))
        return replace(injection, authority=self._authority[1])
