"""The processes of a mesh."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from control_plane.cli.launcher.plan import ChildSpec, Role, plan
from control_plane.cli.launcher.settings import LaunchSettings, StreamFiles

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
        "--push-address unix:/run/o/push.sock --data-dir /data --playground-proxy http://127.0.0.1:10000 "
        "--min-ready-sidecars 1 --no-notices --log-level warning --demo -f /p.yaml",
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
    assert "--playground-proxy http://127.0.0.1:10000" in words(found["control plane"])


def test_providers_keys_reach_the_agent_only() -> None:
    """The processes that callers talk to do not hold what the agent resolves."""
    found = planned(SETTINGS, secret_variables=frozenset({"KEY"}))
    assert [name for name, spec in found.items() if "KEY" in spec.environment] == ["agent"]
    assert all(spec.environment["PATH"] == "/bin" for spec in found.values())


def test_secrets_of_the_control_plane_reach_it_alone_and_by_variables() -> None:
    """Neither database nor token stands in a command line, which every user of the machine can read."""
    given = {"OUTRIGGER_SECRET_KEY": "k-secret", "OUTRIGGER_TOKEN": "ort_x", "OUTRIGGER_ADMIN_TOKEN": "old"}
    settings = replace(SETTINGS, database="postgresql://u:pw@h/db", admin_token="given")
    found = {spec.name: spec for spec in plan(settings, RUN, environment=given)}
    held = found["control plane"].environment
    assert held == {
        "OUTRIGGER_DATABASE": "postgresql://u:pw@h/db",
        "OUTRIGGER_ADMIN_TOKEN": "given",
        "OUTRIGGER_SECRET_KEY": "k-secret",
    }
    for spec in found.values():
        assert not any(secret in " ".join(spec.command) for secret in ("pw@", "given", "k-secret"))
        assert spec is found["control plane"] or not set(spec.environment) & set(held)
        assert "OUTRIGGER_TOKEN" not in spec.environment
        assert "pw@" not in repr(spec)


def test_files_are_applied_by_the_first_start_only() -> None:
    """A control plane that died takes what is stored: the API may have changed it since."""
    spec = planned(SETTINGS, files=(Path("/p.yaml"),))["control plane"]
    assert spec.command == (*spec.again, "--demo", "-f", "/p.yaml")
    assert spec.speaks


def test_options_of_another_command_do_not_reach_the_processes() -> None:
    """Their settings are those of `up`, whatever variables are set."""
    given = {"OUTRIGGER_METRICS_PORT": "1", "OUTRIGGER_PUSH_ADDRESS": "x:1", "OUTRIGGER_ENVOY": "/e"}
    for spec in plan(SETTINGS, RUN, environment=given):
        assert {"OUTRIGGER_METRICS_PORT", "OUTRIGGER_PUSH_ADDRESS"}.isdisjoint(spec.environment)
        assert spec.environment["OUTRIGGER_ENVOY"] == "/e"


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


def test_a_sidecar_joins_with_its_token_and_certificates() -> None:
    """The agent alone has the token; files are named to it."""
    files = StreamFiles(Path("/ca"), Path("/cert"), Path("/key"), Path("/token"))
    settings = replace(SETTINGS, api_port=None, control_plane="cp:9900", stream=files)
    found = {spec.name: spec for spec in plan(settings, RUN, environment={"OUTRIGGER_TOKEN": "ort_x"})}
    options = "--control-plane-ca /ca --client-cert /cert --client-key /key --token-file /token"
    assert words(found["agent"]).endswith(options)
    assert [name for name, spec in found.items() if "OUTRIGGER_TOKEN" in spec.environment] == ["agent"]


def test_a_pod_s_agent_writes_the_bootstrap_of_an_envoy_elsewhere() -> None:
    """The proxy stays on loopback; probes and metrics are answered where the kubelet reaches them."""
    settings = replace(
        SETTINGS,
        api_port=None,
        control_plane="cp:9900",
        external_envoy=True,
        metrics_bind="::",
        health_port=19001,
    )
    said = words(planned(settings)["agent"])
    assert "--metrics-address [::]:" in said
    assert said.endswith("--external-envoy --proxy-address 127.0.0.1:10000 --health-address [::]:19001")
    plain = words(planned(replace(settings, metrics_bind=None, health_port=None))["agent"])
    assert plain.endswith("--external-envoy --proxy-address 127.0.0.1:10000")
