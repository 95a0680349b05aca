"""Which operating system a pod is for, as far as it says so (pure)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from control_plane.webhook.shape import LISTS

OS_LABELS: Final = ("kubernetes.io/os", "beta.kubernetes.io/os")
WINDOWS: Final = "windows"
LINUX: Final = "linux"


def is_for_windows(spec: Mapping[str, Any]) -> bool:
    """Whether a pod with this `spec` can run on Windows alone.

    By its `os`, its node selector, its required node affinity, or options of Windows in a security context,
    which a pod for Linux cannot have.
    https://kubernetes.io/docs/concepts/windows/user-guide
    """
    selector = spec.get("nodeSelector") or {}
    return (
        (spec.get("os") or {}).get("name") == WINDOWS
        or WINDOWS in map(selector.get, OS_LABELS)
        or _is_drawn_to_windows(spec)
        or any((context or {}).get("windowsOptions") for context in _security_contexts(spec))
    )


def _security_contexts(spec: Mapping[str, Any]) -> Iterator[Any]:
    yield spec.get("securityContext")
    for kind in LISTS:
        for container in spec.get(kind) or ():
            yield container.get("securityContext")


def _is_drawn_to_windows(spec: Mapping[str, Any]) -> bool:
    """Whether every node that the required affinity allows has Windows."""
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    # A node is to meet one of the terms; a term that is empty is met by none.
    terms = [term for term in required.get("nodeSelectorTerms") or () if any(term.values())]
    return bool(terms) and all(any(map(_wants_windows, term.get("matchExpressions") or ())) for term in terms)


def _wants_windows(expression: Mapping[str, Any]) -> bool:
    if expression.get("key") not in OS_LABELS:
        return False
    values = expression.get("values") or ()
    if expression.get("operator") == "In":
        return WINDOWS in values and LINUX not in values
    # Nodes have one of the two.
    return expression.get("operator") == "NotIn" and LINUX in values
