"""Every folder of k8s/examples is applied as written to a real API server."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tests.e2e.kubernetes.cluster import Cluster

EXAMPLES = Path("k8s/examples")
CLUSTERS = sorted({file.parent for file in EXAMPLES.rglob("Kustomization")})
FOLDERS = sorted({file.parent for file in EXAMPLES.rglob("*.yaml")})


@pytest.mark.parametrize("folder", FOLDERS, ids=str)
def test_a_folder_is_applied_as_written(cluster: Cluster, folder: Path) -> None:
    """The API server takes every document, with no warning of unknown or outdated fields."""
    documents = [
        document
        for file in sorted(folder.glob("*.yaml"))
        for document in yaml.safe_load_all(file.read_text())
        if document
    ]
    for document in documents:
        namespace = document["metadata"].get("namespace")
        if document["kind"] == "Namespace":
            cluster.namespace(document["metadata"]["name"])
        elif namespace:
            cluster.namespace(namespace)
    said = cluster.kubectl("apply", "--server-side", "--dry-run=server", "-f", str(folder))
    assert "Warning" not in said
    assert said.count("serverside-applied") == len(documents)


@pytest.mark.parametrize("folder", CLUSTERS, ids=str)
def test_a_cluster_of_gitops_is_applied_as_written(cluster: Cluster, folder: Path) -> None:
    """`kubectl apply -k` takes what Kustomize makes of the base."""
    rendered = list(yaml.safe_load_all(cluster.kubectl("kustomize", str(folder))))
    for namespace in {one["metadata"].get("namespace") for one in rendered} - {None}:
        cluster.namespace(namespace)
    said = cluster.kubectl("apply", "--server-side", "--dry-run=server", "-k", str(folder))
    assert "Warning" not in said
    assert said.count("serverside-applied") == len(rendered)
