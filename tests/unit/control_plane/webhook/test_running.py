"""The control plane's part in its cluster: which parts there are, by what is asked for."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import cast

import pytest
import structlog
import uvicorn

from control_plane.kubernetes_client import Kubernetes
from control_plane.webhook.keeping import Files
from control_plane.webhook.running import InCluster
from control_plane.webhook.settings import WebhookSettings
from control_plane.webhook.tls import CertificateFilesError
from tests.unit.control_plane.webhook.cluster import Cluster
from tests.unit.control_plane.webhook.pods import SETTINGS
from tests.unit.control_plane.webhook.test_tls import files


def inside(settings: WebhookSettings, cluster: Cluster | None, folder: Path) -> InCluster:
    """Return a control plane's part in `cluster`."""
    kubernetes = cast("Kubernetes | None", cluster)
    now, log = lambda: datetime.now(UTC), structlog.get_logger()
    return InCluster(settings, kubernetes, data_dir=folder, now=now, log=log)


async def test_a_certificate_of_our_own_serves_reviews_and_push(tmp_path: Path) -> None:
    """Made at the start; the same for both."""
    settings = WebhookSettings(SETTINGS, port=9443, names=("webhook.mesh.svc",), namespace="mesh")
    part = inside(settings, Cluster(), tmp_path)
    await part.prepare()
    found = part.server(uvicorn.Server)
    assert found is not None
    assert found[1] == 9443
    assert part.own_files == Files(tmp_path / "tls")
    assert (len(part.background), part.accounts) == (3, None)


async def test_with_given_files_the_cluster_is_not_asked(tmp_path: Path) -> None:
    """Neither for a Secret nor for the registration, and push keeps its own."""
    own = files(tmp_path)
    settings = WebhookSettings(
        SETTINGS, port=9443, certificate=own.certificate, key=own.key, registration="r"
    )
    cluster = Cluster()
    part = inside(settings, cluster, tmp_path / "data")
    await part.prepare()
    assert not cluster.calls
    assert part.own_files is None
    outside = inside(settings, None, tmp_path / "data")
    await outside.prepare()
    assert len(outside.background) == 1
    with pytest.raises(CertificateFilesError):
        await inside(WebhookSettings(SETTINGS, port=1, certificate=tmp_path / "x"), None, tmp_path).prepare()


async def test_identity_alone_needs_no_webhook(tmp_path: Path) -> None:
    """Sidecars join by service accounts where pods were injected offline."""
    part = inside(WebhookSettings(SETTINGS, token_review=True), Cluster(), tmp_path)
    await part.prepare()
    assert part.accounts is not None
    assert (part.server(uvicorn.Server), part.series, part.background) == (None, (), ())
