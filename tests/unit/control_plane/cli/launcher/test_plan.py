"""The processes of a mesh."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from control_plane.cli.launcher.plan import ChildSpec, Role, plan
from control_plane.cli.launcher.settings import LaunchSettings

SETTINGS = LaunchSettings(
    data_dir=Path("/data"),
    proxy_port=10000,
    metrics_port=9102,
    envoy_admin_port=9901,
    api_port=8080,
    workers=2,
)
RUN = Path("/run/o")


def planned(settings: LaunchSettings, **options: object) -> dict[str, ChildSpec]:
    """Return the plan by process name."""
    specs = plan(settings, RUN, environment={"PATH": "/bin", "KEY": "sk-1"}, **options)  # type: ignore[arg-type]
    return {spec.name: spec for spec in specs}


def words(spec: ChildSpec) -> str:
    """Return the command line after the interpreter."""
    assert spec.command[:3] == (sys.executable, "-P", "-m")
    return " ".join(spec.command[3:])


def test_up_starts_all_of_them_with_the_documented_command_lines() -> None:
    """The table of docs/architecture.md, to the letter."""
    found = planned(SETTINGS, files=(Path("/p.yaml"),))
    assert {name: words(spec) for name, spec in found.items()} == {
        "control plane": "control_plane control-plane --api-port 8080 --bind 127.0.0.1 "
        "--push-address unix:/run/o/push.sock --data-dir /data --min-ready-sidecars 1 --no-notices "
        "--log-level warning -f /p.yaml",
        "agent": "ext_proc agent --run-dir /run/o --data-dir /data --control-plane unix:/run/o/push.sock "
        "--workload default --sidecar-id local --workers 2 --metrics-address 127.0.0.1:9102 "
        "--envoy-admin-address 127.0.0.1:9901 --log-level warning",
        "processor 0": "ext_proc processor --worker 0 --run-dir /run/o --data-dir /data --log-level warning",
        "processor 1": "ext_proc processor --worker 1 --run-dir /run/o --data-dir /data --log-level warning",
        "Envoy": "ext_proc envoy --run-dir /run/o --workers 2 --proxy-address 127.0.0.1:10000 "
        "--envoy-admin-address 127.0.0.1:9901 --log-level warn",
    }


def test_bind_moves_everything_but_envoys_admin() -> None:
    """The admin interface can stop Envoy: it stays on loopback."""
    found = planned(replace(SETTINGS, bind="0.0.0.0"))
    assert "--proxy-address 0.0.0.0:10000" in words(found["Envoy"])
    assert "--envoy-admin-address 127.0.0.1:9901" in words(found["Envoy"])
    assert "--metrics-address 0.0.0.0:9102" in words(found["agent"])
    assert "--bind 0.0.0.0" in words(found["control plane"])


def test_providers_keys_reach_the_agent_only() -> None:
    """The processes that callers talk to do not hold what the agent resolves."""
    found = planned(SETTINGS, secret_variables=frozenset({"KEY"}))
    assert [name for name, spec in found.items() if "KEY" in spec.environment] == ["agent"]
    assert all(spec.environment["PATH"] == "/bin" for spec in found.values())


def test_metrics_files_are_shared_by_agent_and_processors() -> None:
    """A processor's death loses no count."""
    found = planned(SETTINGS)
    measured = [name for name, spec in found.items() if "PROMETHEUS_MULTIPROC_DIR" in spec.environment]
    assert measured == ["agent", "processor 0", "processor 1"]
    assert found["agent"].environment["PROMETHEUS_MULTIPROC_DIR"] == "/run/o/metrics"


def test_the_demo_has_a_provider_of_its_own() -> None:
    """It is one more process on a free port."""
    found = planned(SETTINGS, provider_port=18000)
    assert words(found["provider"]) == "control_plane provider --port 18000"


@pytest.mark.parametrize("external", [False, True])
def test_a_sidecar_follows_a_control_plane_elsewhere(external: bool) -> None:
    """Agent, processors and, unless it has a container of its own, Envoy."""
    settings = replace(
        SETTINGS, api_port=None, control_plane="cp:9900", external_envoy=external, workload="shop"
    )
    found = planned(settings)
    roles = [spec.role for spec in found.values()]
    assert roles == [Role.AGENT, Role.PROCESSOR, Role.PROCESSOR] + [Role.ENVOY] * (not external)
    assert "--control-plane cp:9900 --workload shop" in words(found["agent"])
