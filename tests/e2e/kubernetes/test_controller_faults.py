"""The controller when something dies: the API server, the control plane, itself, its leader."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.kubernetes.cluster import Cluster
from tests.e2e.kubernetes.conftest import established
from tests.e2e.kubernetes.custom_resources import path, resource
from tests.e2e.kubernetes.programs import LEASE_NAMESPACE, ControlPlane, Program, controller
from tests.harness.processes import until

SECONDS = 5.0
RECOVERY_SECONDS = 60.0
TAKEOVER_SECONDS = 30.0
LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{LEASE_NAMESPACE}/leases"

Start = Callable[..., Program]


@pytest.fixture(scope="module")
def fragile(assets: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """An API server that tests kill, whose watches end within seconds."""
    with Cluster(assets, tmp_path_factory.mktemp("fragile"), ["--min-request-timeout=5"]) as started:
        established(started)
        started.namespace(LEASE_NAMESPACE)
        yield started


@pytest.fixture(scope="module")
def control_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A control plane that tests kill."""
    with ControlPlane(tmp_path_factory.mktemp("fragile-plane")) as started:
        yield started


@pytest.fixture
def start(fragile: Cluster, control_plane: ControlPlane, tmp_path: Path) -> Iterator[Start]:
    """Start controllers: `start()`, `start("controller-1")`. The resources of a test go with it."""
    programs: list[Program] = []

    def begin(name: str = "controller-0") -> Program:
        program = controller(tmp_path, fragile.kubeconfig(), control_plane.url, name)
        programs.append(program)
        return program.start()

    yield begin
    fragile.http.delete(path("Tier")).raise_for_status()
    until(lambda: _tiers(control_plane) == [], RECOVERY_SECONDS, "no Tier is left", 0.1)
    for program in programs:
        program.stop()


def test_what_is_deleted_meanwhile_goes_when_it_is_back(
    start: Start, fragile: Cluster, control_plane: ControlPlane
) -> None:
    """A resource that is deleted while no controller runs hangs nowhere, and leaves the API afterwards."""
    running = start()
    _put(fragile, "gold", 60)
    _put(fragile, "silver", 30)
    _in_force(fragile, control_plane, "gold", 60)
    _in_force(fragile, control_plane, "silver", 30)
    running.kill()
    fragile.http.delete(path("Tier", "gold")).raise_for_status()
    assert fragile.http.get(path("Tier", "gold")).status_code == 404
    _put(fragile, "silver", 31)
    _put(fragile, "new", 1)
    start()
    _in_force(fragile, control_plane, "silver", 31, TAKEOVER_SECONDS + SECONDS)
    _in_force(fragile, control_plane, "new", 1)
    until(lambda: control_plane.document("tiers", "gold") is None, SECONDS, "gold is gone", 0.1)


def test_it_survives_the_api_server(start: Start, fragile: Cluster, control_plane: ControlPlane) -> None:
    """Killed and started again, the API server's changes arrive; policy stays in force meanwhile."""
    running = start()
    _put(fragile, "gold", 60)
    _in_force(fragile, control_plane, "gold", 60)
    fragile.kill_api_server()
    time.sleep(3)
    assert _limit(control_plane, "gold") == 60
    fragile.start_api_server()
    _put(fragile, "gold", 61)
    _in_force(fragile, control_plane, "gold", 61, RECOVERY_SECONDS)
    assert running.ready()


def test_it_survives_versions_that_etcd_forgot(
    start: Start, fragile: Cluster, control_plane: ControlPlane
) -> None:
    """A watch that would go on from a version too old (410) starts anew, deletions missed meanwhile too."""
    running = start()
    _put(fragile, "gold", 60)
    _put(fragile, "gone", 1)
    _in_force(fragile, control_plane, "gold", 60)
    _in_force(fragile, control_plane, "gone", 1)
    running.kill(signal.SIGSTOP)
    fragile.http.delete(path("Tier", "gone")).raise_for_status()
    for limit in range(100, 130):
        _put(fragile, "gold", limit)
    fragile.kill_api_server()
    fragile.compact()
    fragile.start_api_server()
    running.kill(signal.SIGCONT)
    _in_force(fragile, control_plane, "gold", 129, RECOVERY_SECONDS)
    until(lambda: control_plane.document("tiers", "gone") is None, SECONDS, "gone is gone", 0.1)


def test_watches_that_end_are_taken_up_again(
    start: Start, fragile: Cluster, control_plane: ControlPlane
) -> None:
    """With watches that end every few seconds, each change still arrives in time."""
    start()
    for limit in (1, 2, 3):
        _put(fragile, "gold", limit)
        _in_force(fragile, control_plane, "gold", limit)
        time.sleep(4)


def test_it_survives_the_control_plane(start: Start, fragile: Cluster, control_plane: ControlPlane) -> None:
    """What changed while the control plane was dead is in force once it is back."""
    start()
    _put(fragile, "gold", 60)
    _in_force(fragile, control_plane, "gold", 60)
    control_plane.kill()
    _put(fragile, "gold", 61)
    _put(fragile, "new", 1)
    time.sleep(3)
    control_plane.start()
    _in_force(fragile, control_plane, "gold", 61, RECOVERY_SECONDS)
    _in_force(fragile, control_plane, "new", 1)


def test_a_killed_leader_is_followed(start: Start, fragile: Cluster, control_plane: ControlPlane) -> None:
    """Of two controllers one is active; when it is killed the other takes over within thirty seconds."""
    programs = {"controller-a": start("controller-a"), "controller-b": start("controller-b")}
    holder = _holder(fragile)
    other = next(name for name in programs if name != holder)
    assert programs[other].ready(), "a standby is ready, too"
    _put(fragile, "gold", 60)
    _in_force(fragile, control_plane, "gold", 60)
    programs[holder].kill()
    killed = time.monotonic()
    _put(fragile, "gold", 61)
    _in_force(fragile, control_plane, "gold", 61, TAKEOVER_SECONDS)
    print(f"taken over after {time.monotonic() - killed:.1f} s")
    assert _holder(fragile) == other


def test_a_leader_that_ends_releases_its_lease(start: Start, fragile: Cluster) -> None:
    """SIGTERM ends it with status 0 within ten seconds, and whoever waits need not wait for a time-out."""
    first = start("controller-a")
    assert _holder(fragile) == "controller-a"
    started = time.monotonic()
    assert first.stop() == 0
    assert time.monotonic() - started < 10
    (lease,) = fragile.get(LEASES)["items"]
    assert not lease["spec"].get("holderIdentity")
    started = time.monotonic()
    start("controller-b")
    until(lambda: _holder(fragile, 0) == "controller-b", 8, "the next one leads", 0.1)


def test_a_stopped_leader_does_not_lead_on(
    start: Start, fragile: Cluster, control_plane: ControlPlane
) -> None:
    """A leader that slept through its Lease (a frozen node) puts nothing back when it wakes."""
    programs = {"controller-a": start("controller-a"), "controller-b": start("controller-b")}
    holder = _holder(fragile)
    other = next(name for name in programs if name != holder)
    programs[holder].kill(signal.SIGSTOP)
    stopped = time.monotonic()
    _put(fragile, "gold", 60)
    _in_force(fragile, control_plane, "gold", 60, TAKEOVER_SECONDS)
    # Longer than anything that it does from time to time.
    time.sleep(max(0.0, stopped + TAKEOVER_SECONDS - time.monotonic()))
    before = control_plane.api.get("/revisions").json()["items"][0]
    programs[holder].kill(signal.SIGCONT)
    time.sleep(4)
    assert _holder(fragile) == other
    assert control_plane.api.get("/revisions").json()["items"][0] == before
    _put(fragile, "gold", 61)
    _in_force(fragile, control_plane, "gold", 61)


def _put(cluster: Cluster, name: str, limit: int) -> None:
    spec = {"limits": {"requestsPerMinute": limit}}
    cluster.apply(path("Tier", name), resource("Tier", name, spec))


def _in_force(
    cluster: Cluster, control_plane: ControlPlane, name: str, limit: int, seconds: float = SECONDS
) -> None:
    """Wait until the API has `limit` and the resource says so in both conditions."""
    until(
        lambda: _limit(control_plane, name) == limit and _programmed(cluster, name),
        seconds,
        f"Tier {name} of {limit} is in force",
        0.1,
    )


def _limit(control_plane: ControlPlane, name: str) -> int | None:
    document = control_plane.document("tiers", name)
    return document["spec"]["limits"]["requestsPerMinute"] if document else None


def _tiers(control_plane: ControlPlane) -> list[Any]:
    found: list[Any] = control_plane.api.get("/tiers").json()["items"]
    return found


def _programmed(cluster: Cluster, name: str) -> bool:
    found = cluster.get(path("Tier", name))
    conditions = {
        one["type"]: one["status"]
        for one in found.get("status", {}).get("conditions", [])
        if one["observedGeneration"] == found["metadata"]["generation"]
    }
    return conditions == {"Accepted": "True", "Programmed": "True"}


def _holder(cluster: Cluster, seconds: float = TAKEOVER_SECONDS) -> str:
    """Return who leads, once somebody does; empty when nobody does in time."""

    def look() -> str:
        leases = cluster.get(LEASES)["items"]
        return str(leases[0]["spec"].get("holderIdentity") or "") if leases else ""

    return until(look, seconds, "somebody leads", 0.1) if seconds else look()
