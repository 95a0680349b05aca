"""The pair as containers: their command lines."""

from __future__ import annotations

from dataclasses import replace

from control_plane.webhook.containers import envoy_container, processor_container, volumes
from control_plane.webhook.ports import Ports
from control_plane.webhook.tuning import tuning_of
from tests.unit.control_plane.webhook.pods import SETTINGS

PORTS = Ports(1, 2, 3, 4)


def test_envoy_reads_what_the_processor_s_container_wrote() -> None:
    """One folder in both, and the bootstrap in it."""
    tuning = tuning_of({"outrigger.dev/log-level": "info"}, SETTINGS)
    envoy = envoy_container(SETTINGS, tuning, PORTS)
    assert envoy["args"][:2] == ["--config-path", "/run/outrigger/envoy.yaml"]
    assert envoy["args"][envoy["args"].index("--log-level") + 1] == "info"
    assert envoy["volumeMounts"] == [{"name": "outrigger-run", "mountPath": "/run/outrigger"}]


def test_redis_goes_as_a_url_or_as_a_file() -> None:
    """Without credentials in the arguments, with them in a Secret of the pod's namespace."""
    plain = replace(SETTINGS, redis="redis://cache:6379/0")
    arguments = processor_container(plain, tuning_of({}, plain), PORTS, "w")["args"]
    assert arguments[arguments.index("--redis") + 1] == "redis://cache:6379/0"
    assert [item["name"] for item in volumes(plain)] == ["outrigger-run", "outrigger-data", "outrigger-token"]
    secret = replace(SETTINGS, redis_secret="outrigger-redis")
    mounts = processor_container(secret, tuning_of({}, secret), PORTS, "w")["volumeMounts"]
    assert {item["name"] for item in mounts} == {item["name"] for item in volumes(secret)}
