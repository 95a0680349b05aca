"""The decision about one pod: its injection, or why it has none (pure).

What comes in has been read as a pod by an API server or checked by `check_pod`. What is injected once is
changed no more, but for containers that came later and still lack the proxy's address.
https://kubernetes.io/docs/concepts/workloads/pods/sidecar-containers
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from enum import StrEnum
from typing import Any, Final

from control_plane.webhook.containers import envoy_container, processor_container, volumes
from control_plane.webhook.draft import Draft, Operation
from control_plane.webhook.names import (
    AUTHORITY,
    BASE_URL,
    CONTAINERS,
    INJECT,
    INJECTED,
    PREFIX,
    VOLUMES,
    WORKLOAD,
    workload_of,
)
from control_plane.webhook.opting import BadOptError, opts_out
from control_plane.webhook.ports import Ports, ports_for, ports_of
from control_plane.webhook.settings import InjectionSettings, Mode
from control_plane.webhook.shape import LISTS, Pod
from control_plane.webhook.systems import is_for_windows
from control_plane.webhook.tuning import TAKEN, BadAnnotationError, Tuning, tuning_of

SYSTEM_NAMESPACES: Final = "kube-"
MIRROR: Final = "kubernetes.io/config.mirror"
OURS: Final = TAKEN | {INJECT, INJECTED, WORKLOAD, AUTHORITY}


class Outcome(StrEnum):
    """What became of a pod."""

    INJECTED = "injected"
    UNCHANGED = "unchanged"
    OPTED_OUT = "opted-out"
    SYSTEM_NAMESPACE = "system-namespace"
    WINDOWS = "windows"
    HOST_NETWORK = "host-network"
    PORT_IN_USE = "port-in-use"
    NAME_IN_USE = "name-in-use"
    BAD_ANNOTATION = "bad-annotation"
    STATIC_POD = "static-pod"
    COMPLETES = "completes"


@dataclass(frozen=True, slots=True)
class Injection:
    """A pod with its pair. `patch` makes `pod` from the original; it is empty when nothing was missing.

    `pair` is whether the pair itself was missing; `warnings` is what whoever makes the pod is told.
    """

    pod: Mapping[str, Any]
    patch: tuple[Operation, ...]
    outcome: Outcome = Outcome.INJECTED
    pair: bool = False
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Skipped:
    """A pod that stays as it is. With `warn` the `reason` is news to whoever makes it."""

    outcome: Outcome
    reason: str
    warn: bool = False

    @property
    def warnings(self) -> tuple[str, ...]:
        """What whoever makes the pod is told."""
        return (f"outrigger: no sidecar: {self.reason}",) if self.warn else ()


def inject(pod: Pod, namespace: str, settings: InjectionSettings, *, owner: str = "") -> Injection | Skipped:
    """Decide about `pod`, which is made in `namespace` ("" where that is not known).

    `owner` is the name of what the pod is a template of, if it is one. The pod's own `metadata.namespace`
    does not count: it is often empty while the API server asks.
    """
    metadata, spec = pod.get("metadata") or {}, pod["spec"]
    kept_out = _kept_out(metadata, spec, namespace, settings)
    if kept_out is not None:
        return kept_out
    try:
        tuning = tuning_of(metadata.get("annotations") or {}, settings)
    except BadAnnotationError as error:
        return Skipped(Outcome.BAD_ANNOTATION, str(error), warn=True)
    if _is_ours(metadata, spec):
        return _completed(pod, tuning, settings)
    name = next(_names_in_use(spec), None)
    if name is not None:
        return Skipped(Outcome.NAME_IN_USE, f"the pod has a {name} that is not ours; rename it", warn=True)
    taken = ports_of(spec)
    if tuning.proxy_port in taken:
        reason = (
            f"the pod uses port {tuning.proxy_port}, which is the proxy's; choose another by the annotation "
            "outrigger.dev/proxy-port"
        )
        return Skipped(Outcome.PORT_IN_USE, reason, warn=True)
    workload = workload_of(metadata, owner)
    return _injected(pod, tuning, ports_for(tuning.proxy_port, taken), settings, workload)


def _kept_out(
    metadata: Mapping[str, Any], spec: Mapping[str, Any], namespace: str, settings: InjectionSettings
) -> Skipped | None:
    if namespace.startswith(SYSTEM_NAMESPACES) or (namespace and namespace == settings.own_namespace):
        return Skipped(Outcome.SYSTEM_NAMESPACE, f"pods of the namespace {namespace} are never injected")
    if MIRROR in (metadata.get("annotations") or {}):
        return Skipped(Outcome.STATIC_POD, "the pod is the mirror of one that a kubelet runs by itself")
    try:
        if opts_out(metadata):
            return Skipped(Outcome.OPTED_OUT, f"the pod's {INJECT} says no")
    except BadOptError as error:
        return Skipped(Outcome.BAD_ANNOTATION, str(error), warn=True)
    if is_for_windows(spec):
        return Skipped(Outcome.WINDOWS, "the pod is for Windows", warn=True)
    if spec.get("hostNetwork"):
        reason = "the pod is on its host's network, where ports belong to everybody"
        return Skipped(Outcome.HOST_NETWORK, reason, warn=True)
    if settings.mode is Mode.CLASSIC and spec.get("restartPolicy") in {"Never", "OnFailure"}:
        reason = "containers beside it would keep the pod from completing; native sidecars do not"
        return Skipped(Outcome.COMPLETES, reason, warn=True)
    return None


def _is_ours(metadata: Mapping[str, Any], spec: Mapping[str, Any]) -> bool:
    if INJECTED not in (metadata.get("annotations") or {}):
        return False
    return any({container.get("name") for container in spec.get(kind) or ()} >= CONTAINERS for kind in LISTS)


def _names_in_use(spec: Mapping[str, Any]) -> Iterator[str]:
    for kind, ours in (*((kind, CONTAINERS) for kind in LISTS), ("volumes", VOLUMES)):
        for item in spec.get(kind) or ():
            if item.get("name") in ours:
                yield f"{'volume' if kind == 'volumes' else 'container'} {item['name']}"


def _completed(pod: Pod, tuning: Tuning, settings: InjectionSettings) -> Injection:
    """Return an injected pod with the proxy's address in what has come to it since."""
    draft = Draft(pod)
    _tell_containers(draft, tuning, settings)
    outcome = Outcome.INJECTED if draft.patch else Outcome.UNCHANGED
    return Injection(draft.pod, tuple(draft.patch), outcome)


def _injected(
    pod: Pod, tuning: Tuning, ports: Ports, settings: InjectionSettings, workload: str
) -> Injection:
    draft = Draft(pod)
    _tell_containers(draft, tuning, settings)
    pair = (
        processor_container(settings, tuning, ports, workload),
        envoy_container(settings, tuning, ports),
    )
    for index, container in enumerate(pair):
        if settings.mode is Mode.NATIVE:
            # Before the application's own, so that they can call models too.
            draft.insert(("spec", "initContainers"), index, container)
        else:
            draft.append(("spec", "containers"), container)
    for volume in volumes(settings):
        draft.append(("spec", "volumes"), volume)
    present = {secret.get("name") for secret in pod["spec"].get("imagePullSecrets") or ()}
    for name in settings.pull_secrets:
        if name not in present:
            draft.append(("spec", "imagePullSecrets"), {"name": name})
    draft.set(("metadata", "labels"), INJECTED, "true")
    draft.set(("metadata", "annotations"), INJECTED, settings.version)
    if settings.authority:
        draft.set(("metadata", "annotations"), AUTHORITY, settings.authority)
    return Injection(draft.pod, tuple(draft.patch), pair=True, warnings=tuple(_misspelt(pod)))


def _misspelt(pod: Pod) -> Iterator[str]:
    """Yield a warning for each annotation that looks like one of ours and is none."""
    for name in (pod.get("metadata") or {}).get("annotations") or {}:
        if isinstance(name, str) and name.startswith(PREFIX) and name not in OURS:
            near = get_close_matches(name, OURS, 1)
            hint = f"; did you mean {near[0]}?" if near else ""
            yield f"outrigger: {name} is no annotation of ours{hint}"


def _tell_containers(draft: Draft, tuning: Tuning, settings: InjectionSettings) -> None:
    """Set the proxy's address in every container of the application that does not set it."""
    url = f"http://127.0.0.1:{tuning.proxy_port}/v1"
    # Containers beside the application start after its init containers.
    kinds = LISTS if settings.mode is Mode.NATIVE else LISTS[:1]
    for kind in kinds:
        for index, container in enumerate(draft.pod["spec"].get(kind) or ()):
            if container.get("name") in CONTAINERS:
                continue
            present = {variable.get("name") for variable in container.get("env") or ()}
            for name in reversed((BASE_URL, *settings.variables)):
                if name not in present:
                    # First, so that variables of the application may refer to it.
                    draft.insert(("spec", kind, index, "env"), 0, {"name": name, "value": url})
