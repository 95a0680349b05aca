"""A real API server with our CRDs. Without `KUBEBUILDER_ASSETS` tests here are skipped by name, in CI too."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.kubernetes.cluster import Cluster

ASSETS = "KUBEBUILDER_ASSETS"
CRDS = Path("k8s/chart/crds")
LOG_TAIL_CHARACTERS = 4000


@pytest.fixture(scope="session")
def assets() -> Path:
    """The folder of etcd and kube-apiserver."""
    folder = os.environ.get(ASSETS)
    if not folder:
        pytest.skip(f"{ASSETS} names no folder of etcd and kube-apiserver")
    return Path(folder)


@pytest.fixture(scope="session")
def cluster(assets: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """An API server that tests share, with our CRDs established. Tests leave no custom resource behind."""
    with Cluster(assets, tmp_path_factory.mktemp("cluster")) as started:
        established(started)
        yield started


def established(cluster: Cluster) -> None:
    """Apply our CRDs and wait until the API server serves them."""
    cluster.kubectl("apply", "--server-side", "-f", str(CRDS))
    cluster.kubectl("wait", "--for=condition=Established", "--timeout=30s", "-f", str(CRDS))
    # What kubectl remembers of the API server is from before.
    shutil.rmtree(cluster.folder / ".kube", ignore_errors=True)
