"""The pair and its volumes, as Kubernetes spells them (pure).

Both run as one user, without rights, from read-only roots: what Pod Security's *restricted* asks for. They
meet in the run folder. Nothing secret stands in them: the token is projected, the authority is public.
https://kubernetes.io/docs/concepts/security/pod-security-standards
"""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Any, Final

from control_plane.webhook.names import (
    AUDIENCE,
    AUTHORITY,
    DATA_VOLUME,
    ENVOY,
    PROCESSOR,
    REDIS_VOLUME,
    RUN_VOLUME,
    TOKEN_VOLUME,
)
from control_plane.webhook.ports import Ports
from control_plane.webhook.settings import InjectionSettings, Mode
from control_plane.webhook.tuning import Tuning
from ext_proc.contract.envoy_options import envoy_options

Json = dict[str, Any]

USER: Final = 10001
RUN_DIR: Final = "/run/outrigger"
DATA_DIR: Final = "/var/lib/outrigger"
TOKEN_DIR: Final = "/var/run/secrets/outrigger"
REDIS_DIR: Final = "/var/run/secrets/outrigger-redis"
TOKEN_LIVES_S: Final = 3600
STARTS_WITHIN_S: Final = 120
SMALL: Final = {"memory": "64Mi", "data": "256Mi"}


def processor_container(settings: InjectionSettings, tuning: Tuning, ports: Ports, workload: str) -> Json:
    """Return the container of agent and processors, which also writes Envoy's bootstrap."""
    arguments = [
        *("sidecar", "--external-envoy", "--run-dir", RUN_DIR, "--data-dir", DATA_DIR),
        *("--control-plane", settings.control_plane, "--workload", workload),
        *("--sidecar-id", "$(POD_NAMESPACE)/$(POD_NAME)"),
        *("--proxy-port", str(ports.proxy), "--envoy-admin-port", str(ports.admin)),
        *("--health-port", str(ports.ready), "--metrics-port", str(ports.stats), "--metrics-bind", "*"),
        *("--token-file", f"{TOKEN_DIR}/token"),
        *(("--control-plane-ca", f"{TOKEN_DIR}/ca.pem") if settings.authority else ()),
        *(("--redis", settings.redis) if settings.redis else ()),
        *(("--redis-file", f"{REDIS_DIR}/url") if settings.redis_secret else ()),
        *("--workers", str(tuning.workers), "--log-level", tuning.log_level),
    ]
    mounts = [
        {"name": RUN_VOLUME, "mountPath": RUN_DIR},
        {"name": DATA_VOLUME, "mountPath": DATA_DIR},
        {"name": TOKEN_VOLUME, "mountPath": TOKEN_DIR, "readOnly": True},
    ]
    if settings.redis_secret:
        mounts.append({"name": REDIS_VOLUME, "mountPath": REDIS_DIR, "readOnly": True})
    return {
        "name": PROCESSOR,
        "image": tuning.image,
        "imagePullPolicy": settings.pull_policy.value,
        "args": arguments,
        "env": [_from_pod("POD_NAME", "metadata.name"), _from_pod("POD_NAMESPACE", "metadata.namespace")],
        "ports": [{"name": "outrigger-stats", "containerPort": ports.stats, "protocol": "TCP"}],
        # No readiness: without a processor Envoy goes on by itself, and the application with it.
        "startupProbe": _probe("/startupz", ports.stats, every_s=1, failures=STARTS_WITHIN_S),
        "livenessProbe": _probe("/healthz", ports.stats, every_s=15, failures=4),
        "resources": _copied(tuning.processor_resources),
        **_lasting(settings.mode, ports),
        "securityContext": _unprivileged(),
        "volumeMounts": mounts,
    }


def envoy_container(settings: InjectionSettings, tuning: Tuning, ports: Ports) -> Json:
    """Return Envoy's container. It starts once the processor's has written the bootstrap."""
    return {
        "name": ENVOY,
        "image": tuning.envoy_image,
        "imagePullPolicy": settings.pull_policy.value,
        "args": envoy_options(PurePosixPath(RUN_DIR, "envoy.yaml"), log_level=_envoy_level(tuning)),
        "ports": [{"name": "outrigger-ready", "containerPort": ports.ready, "protocol": "TCP"}],
        # Asked of the agent: the application starts when its calls are governed, not when they only pass.
        "startupProbe": _probe("/readyz", ports.stats, every_s=1, failures=STARTS_WITHIN_S),
        "readinessProbe": _probe("/healthz", ports.ready, every_s=10, failures=3),
        "livenessProbe": _probe("/healthz", ports.ready, every_s=15, failures=4),
        "resources": _copied(tuning.envoy_resources),
        **_lasting(settings.mode, ports),
        "securityContext": _unprivileged(),
        "volumeMounts": [{"name": RUN_VOLUME, "mountPath": RUN_DIR}],
    }


def volumes(settings: InjectionSettings) -> list[Json]:
    """Return the volumes of the pair."""
    sources: list[Json] = [
        {
            "serviceAccountToken": {
                "audience": AUDIENCE,
                "expirationSeconds": TOKEN_LIVES_S,
                "path": "token",
            }
        }
    ]
    if settings.authority:
        field = {"apiVersion": "v1", "fieldPath": f"metadata.annotations['{AUTHORITY}']"}
        sources.append({"downwardAPI": {"items": [{"path": "ca.pem", "fieldRef": field}]}})
    made: list[Json] = [
        # In memory: sockets and metric files, which are written at every request.
        {"name": RUN_VOLUME, "emptyDir": {"medium": "Memory", "sizeLimit": SMALL["memory"]}},
        {"name": DATA_VOLUME, "emptyDir": {"sizeLimit": SMALL["data"]}},
        {"name": TOKEN_VOLUME, "projected": {"defaultMode": 0o444, "sources": sources}},
    ]
    if settings.redis_secret:
        secret = {
            "secretName": settings.redis_secret,
            "defaultMode": 0o444,
            "items": [{"key": "url", "path": "url"}],
            # Without it the pair works alone.
            "optional": True,
        }
        made.append({"name": REDIS_VOLUME, "secret": secret})
    return made


def _lasting(mode: Mode, ports: Ports) -> Json:
    """Return how the container outlives the application.

    A native sidecar is stopped after it. One beside it is told to stop at the same time: it waits while
    Envoy holds back its answer to the kubelet.
    """
    if mode is Mode.NATIVE:
        return {"restartPolicy": "Always"}
    waiting = {"httpGet": {"path": "/wait", "port": ports.ready, "scheme": "HTTP"}}
    return {"lifecycle": {"preStop": waiting}}


def _probe(path: str, port: int, *, every_s: int, failures: int) -> Json:
    return {
        "httpGet": {"path": path, "port": port, "scheme": "HTTP"},
        "periodSeconds": every_s,
        "timeoutSeconds": 5,
        "successThreshold": 1,
        "failureThreshold": failures,
    }


def _unprivileged() -> Json:
    return {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "privileged": False,
        "readOnlyRootFilesystem": True,
        "runAsGroup": USER,
        "runAsNonRoot": True,
        "runAsUser": USER,
        "seccompProfile": {"type": "RuntimeDefault"},
    }


def _from_pod(name: str, field: str) -> Json:
    return {"name": name, "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": field}}}


def _envoy_level(tuning: Tuning) -> str:
    return "warn" if tuning.log_level == "warning" else tuning.log_level


def _copied(resources: Any) -> Json:
    return {kind: dict(amounts) for kind, amounts in resources.items()}
