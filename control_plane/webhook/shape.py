"""The shape of a pod, as far as injection looks (pure): what passes here is read without a further check.

https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-v1
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

Pod = Mapping[str, Any]

LISTS: Final = ("containers", "initContainers")
"""Where a pod's spec has its containers."""
PROBES: Final = ("startupProbe", "readinessProbe", "livenessProbe")
HOOKS: Final = ("postStart", "preStop")
WAYS: Final = ("httpGet", "tcpSocket", "grpc")
"""How a probe, or a hook of a container's lifecycle, reaches a port."""


class NotAPodError(ValueError):
    """What is to be injected is no pod; the message says what is off."""


def check_pod(pod: object) -> Pod:
    """Return `pod` if it has the shape of one, as far as injection looks.

    Raises:
        NotAPodError: it does not.
    """
    if not isinstance(pod, Mapping):
        raise NotAPodError("the pod must be a mapping")
    spec, metadata = pod.get("spec"), pod.get("metadata")
    if not isinstance(metadata, Mapping | None):
        raise NotAPodError("metadata must be a mapping")
    if not isinstance(spec, Mapping):
        raise NotAPodError("spec must be a mapping")
    if not spec.get("containers"):
        raise NotAPodError("spec.containers must be a list with at least one container")
    for name in ("labels", "annotations"):
        _mapping(metadata or {}, name, "metadata")
    for name in ("nodeSelector", "os", "securityContext"):
        _mapping(spec, name, "spec")
    _check_affinity(spec)
    _check_items(metadata or {}, "metadata", ("ownerReferences",))
    _check_items(spec, "spec", (*LISTS, "volumes", "imagePullSecrets"))
    for kind in LISTS:
        for index, container in enumerate(spec.get(kind) or ()):
            _check_container(container, f"spec.{kind}[{index}]")
    return pod


def _check_affinity(spec: Mapping[str, Any]) -> None:
    found, where = spec, "spec"
    for name in ("affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution"):
        found = _mapping(found, name, where)
        where = f"{where}.{name}"
    _check_items(found, where, ("nodeSelectorTerms",))
    for index, term in enumerate(found.get("nodeSelectorTerms") or ()):
        place = f"{where}.nodeSelectorTerms[{index}]"
        _check_items(term, place, ("matchExpressions",))
        for expression in term.get("matchExpressions") or ():
            if not isinstance(expression.get("values"), list | None):
                raise NotAPodError(f"the values of each of {place}.matchExpressions must be a list")


def _check_container(container: Mapping[str, Any], where: str) -> None:
    _check_items(container, where, ("env", "ports"))
    _mapping(container, "securityContext", where)
    lifecycle = _mapping(container, "lifecycle", where)
    for owner, place, names in ((container, where, PROBES), (lifecycle, f"{where}.lifecycle", HOOKS)):
        for name in names:
            reached = _mapping(owner, name, place)
            for way in WAYS:
                _mapping(reached, way, f"{place}.{name}")


def _mapping(owner: Mapping[str, Any], name: str, where: str) -> Mapping[str, Any]:
    """Return the mapping `name` of `owner`, an empty one where it is absent or null."""
    value = owner.get(name)
    if not isinstance(value, Mapping | None):
        raise NotAPodError(f"{where}.{name} must be a mapping")
    return value or {}


def _check_items(owner: Mapping[str, Any], where: str, names: tuple[str, ...]) -> None:
    for name in names:
        items = owner.get(name)
        if not isinstance(items, list | None) or not all(isinstance(item, Mapping) for item in items or ()):
            raise NotAPodError(f"{where}.{name} must be a list of mappings")
        if not all(isinstance(item.get("name"), str | None) for item in items or ()):
            raise NotAPodError(f"the name of each of {where}.{name} must be a text")
