"""Which processes make up a mesh, and their command lines (pure). The table is docs/architecture.md's."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Final

from control_plane.cli.launcher.environments import METRICS_VARIABLE, Environments
from control_plane.cli.launcher.settings import LaunchSettings, address, reachable

LOOPBACK: Final = "127.0.0.1"
# -P: a file in the current folder is never taken for one of our modules.
PYTHON: Final = (sys.executable, "-P", "-m")


class Role(StrEnum):
    """What a process is for."""

    PROVIDER = "provider"
    CONTROL_PLANE = "control-plane"
    AGENT = "agent"
    PROCESSOR = "processor"
    ENVOY = "envoy"


@dataclass(frozen=True, slots=True)
class ChildSpec:
    """One process to keep up.

    `again` is its command line once the mesh has been ready, "" for the same one. One that `speaks` tells
    the launcher something on stdout, line by line.
    """

    name: str
    role: Role
    command: tuple[str, ...]
    environment: Mapping[str, str] = field(repr=False)
    again: tuple[str, ...] = ()
    speaks: bool = False


def plan(
    settings: LaunchSettings,
    run_dir: Path,
    *,
    environment: Mapping[str, str],
    files: Sequence[Path] = (),
    secret_variables: frozenset[str] = frozenset(),
    provider_port: int | None = None,
) -> tuple[ChildSpec, ...]:
    """Return the processes in the order of their start.

    `environment` is the launcher's own; the `secret_variables` (providers' keys, as far as they are known)
    reach the agent only, which is the one that resolves them. `files` is what the control plane applies at
    its start; one that is started again later does not: the API may have changed them in between.
    """
    given = Environments(settings, environment, secret_variables)
    measured = {METRICS_VARIABLE: str(run_dir / "metrics")}
    control_plane = settings.control_plane or f"unix:{run_dir / 'push.sock'}"
    folders = ("--run-dir", str(run_dir), "--data-dir", str(settings.data_dir))
    level = ("--log-level", settings.log_level)
    admin = address(LOOPBACK, settings.envoy_admin_port)
    specs: list[ChildSpec] = []
    if provider_port is not None:
        provider = (*PYTHON, "control_plane", "provider", "--port", str(provider_port))
        specs.append(ChildSpec("provider", Role.PROVIDER, provider, given.plain()))
    if settings.api_port is not None:
        serving = (
            *(*PYTHON, "control_plane", "control-plane"),
            *("--api-port", str(settings.api_port), "--bind", settings.bind),
            *("--push-address", control_plane, "--data-dir", str(settings.data_dir)),
            *("--playground-proxy", f"http://{address(reachable(settings.bind), settings.proxy_port)}"),
            *("--min-ready-sidecars", "1", "--no-notices", *level),
        )
        applied = (
            *(("--demo",) if settings.demo else ()),
            *(word for file in files for word in ("-f", str(file))),
        )
        specs.append(
            ChildSpec(
                "control plane",
                Role.CONTROL_PLANE,
                (*serving, *applied),
                given.control_plane(),
                again=serving,
                speaks=True,
            )
        )
    agent = (
        *(*PYTHON, "ext_proc", "agent", *folders, "--control-plane", control_plane),
        *("--workload", settings.workload, "--sidecar-id", settings.sidecar_id),
        *("--workers", str(settings.workers)),
        *("--metrics-address", address(settings.metrics_host, settings.metrics_port)),
        *("--envoy-admin-address", admin, *level),
        *_stream_options(settings),
        *_envoy_options(settings),
    )
    specs.append(ChildSpec("agent", Role.AGENT, agent, {**given.agent(), **measured}))
    for worker in range(settings.workers):
        command = (*PYTHON, "ext_proc", "processor", "--worker", str(worker), *folders, *level)
        specs.append(
            ChildSpec(f"processor {worker}", Role.PROCESSOR, command, {**given.processor(), **measured})
        )
    if not settings.external_envoy:
        envoy = (
            *(*PYTHON, "ext_proc", "envoy", "--run-dir", str(run_dir)),
            *("--workers", str(settings.workers)),
            *("--proxy-address", address(settings.bind, settings.proxy_port)),
            *("--envoy-admin-address", admin),
            *("--log-level", "warn" if settings.log_level == "warning" else settings.log_level),
        )
        specs.append(ChildSpec("Envoy", Role.ENVOY, envoy, given.plain()))
    return tuple(specs)


def _stream_options(settings: LaunchSettings) -> tuple[str, ...]:
    given = {
        "--control-plane-ca": settings.stream.ca,
        "--client-cert": settings.stream.client_cert,
        "--client-key": settings.stream.client_key,
        "--token-file": settings.stream.token,
    }
    return tuple(word for option, path in given.items() if path for word in (option, str(path)))


def _envoy_options(settings: LaunchSettings) -> tuple[str, ...]:
    """Return what the agent writes Envoy's bootstrap from, where Envoy is none of our processes."""
    if not settings.external_envoy:
        return ()
    proxy = ("--external-envoy", "--proxy-address", address(settings.bind, settings.proxy_port))
    if settings.health_port is None:
        return proxy
    return (*proxy, "--health-address", address(settings.metrics_host, settings.health_port))
