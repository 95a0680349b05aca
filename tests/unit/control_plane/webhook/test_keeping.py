"""The self-managed certificate: one for all replicas, told to the API server."""

from __future__ import annotations

import base64
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import structlog

from control_plane.kubernetes_client import KubernetesError
from control_plane.webhook import keeping
from control_plane.webhook.keeping import CONFIGURATIONS, CertificateKeeper, Files
from tests.unit.control_plane.webhook.cluster import Cluster

SECRETS = "/api/v1/namespaces/mesh/secrets"
SECRET = f"{SECRETS}/outrigger-webhook"
REGISTRATION = f"{CONFIGURATIONS}/outrigger"
START = datetime(2030, 1, 1, tzinfo=UTC)


class Replica:
    """One control plane with its keeper and its files."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self.now = START
        self.files = Files(folder)
        self.keeper = CertificateKeeper(
            cluster,
            namespace="mesh",
            secret="outrigger-webhook",
            names=("outrigger-webhook.mesh.svc",),
            registration="outrigger",
            files=self.files,
            now=lambda: self.now,
            log=structlog.get_logger(),
        )


@pytest.fixture
def cluster() -> Cluster:
    """Return a cluster with a registration that has no authority yet."""
    made = Cluster()
    webhook = {"name": "pods.outrigger.dev", "clientConfig": {"service": {"name": "outrigger-webhook"}}}
    made.put(REGISTRATION, {"metadata": {"name": "outrigger"}, "webhooks": [webhook]})
    return made


def bundle(cluster: Cluster) -> bytes:
    """Return the authority that the API server verifies us by."""
    return base64.b64decode(cluster.objects[REGISTRATION]["webhooks"][0]["clientConfig"]["caBundle"])


@pytest.mark.parametrize("empty", [True, False], ids=["an empty Secret", "no Secret"])
async def test_the_first_replica_makes_it(cluster: Cluster, tmp_path: Path, empty: bool) -> None:
    """Into the Secret, whatever else that holds; into files that nobody else reads; into the registration."""
    if empty:
        cluster.put(SECRET, {"metadata": {"name": "outrigger-webhook"}, "data": {"other": "eA=="}})
    replica = Replica(cluster, tmp_path / "tls")
    await replica.keeper.begin()
    data = cluster.objects[SECRET]["data"]
    assert base64.b64decode(data["tls.crt"]) == replica.files.certificate.read_bytes()
    assert (data.get("other") == "eA==") is empty
    assert stat.S_IMODE(replica.files.key.stat().st_mode) == 0o600
    assert bundle(cluster) == replica.files.authority.read_bytes()


async def test_at_rest_nothing_is_written(cluster: Cluster, tmp_path: Path) -> None:
    """A second look finds all in place."""
    replica = Replica(cluster, tmp_path)
    await replica.keeper.look()
    cluster.calls.clear()
    await replica.keeper.look()
    assert not cluster.writes


async def test_replicas_share_one(cluster: Cluster, tmp_path: Path) -> None:
    """Who comes second takes what is there, also when both began at the same time."""
    cluster.put(SECRET, {"metadata": {"name": "outrigger-webhook"}})
    one, two = Replica(cluster, tmp_path / "1"), Replica(cluster, tmp_path / "2")
    put = cluster.put

    def meanwhile(method: str, path: str) -> None:
        if method == "PUT":
            # The other one has written between our reading and our writing.
            cluster.before = lambda method, path: None
            put(SECRET, theirs)

    await one.keeper.look()
    theirs = cluster.objects[SECRET]
    put(SECRET, {"metadata": {"name": "outrigger-webhook"}})
    cluster.before = meanwhile
    await two.keeper.look()
    assert two.files.certificate.read_bytes() == one.files.certificate.read_bytes()


async def test_it_is_renewed_before_its_end_and_the_others_follow(cluster: Cluster, tmp_path: Path) -> None:
    """Without a restart of any of them."""
    one, two = Replica(cluster, tmp_path / "1"), Replica(cluster, tmp_path / "2")
    await one.keeper.look()
    await two.keeper.look()
    before = one.files.certificate.read_bytes()
    one.now = two.now = START + timedelta(days=70)
    await one.keeper.look()
    await two.keeper.look()
    assert one.files.certificate.read_bytes() != before
    assert two.files.certificate.read_bytes() == one.files.certificate.read_bytes()


async def test_an_upgrade_that_takes_the_authority_out_is_put_right(cluster: Cluster, tmp_path: Path) -> None:
    """A chart that is applied again has no authority in it."""
    replica = Replica(cluster, tmp_path)
    await replica.keeper.look()
    del cluster.objects[REGISTRATION]["webhooks"][0]["clientConfig"]["caBundle"]
    await replica.keeper.look()
    assert bundle(cluster) == replica.files.authority.read_bytes()


async def test_a_restart_without_the_api_server_takes_the_files(cluster: Cluster, tmp_path: Path) -> None:
    """What was there before serves on."""
    await Replica(cluster, tmp_path).keeper.begin()
    cluster.down = True
    await Replica(cluster, tmp_path).keeper.begin()


async def test_a_start_without_files_and_api_server_fails(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After some tries: there is nothing to serve with."""
    monkeypatch.setattr(keeping, "RETRY_S", 0.0)
    cluster.down = True
    with pytest.raises(KubernetesError):
        await Replica(cluster, tmp_path).keeper.begin()


async def test_a_missing_registration_does_not_keep_it_from_serving(cluster: Cluster, tmp_path: Path) -> None:
    """The chart may come later."""
    del cluster.objects[REGISTRATION]
    replica = Replica(cluster, tmp_path)
    await replica.keeper.begin()
    assert replica.files.whole
