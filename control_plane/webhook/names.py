"""The names that injection reads and writes: labels, annotations, containers, volumes (pure).

Every one of them is public: applications, charts and monitors refer to them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

PREFIX: Final = "outrigger.dev/"
INJECT: Final = PREFIX + "inject"
"""`enabled` on a namespace lets its pods in; `disabled` on a pod (label or annotation) keeps it out."""
INJECTED: Final = PREFIX + "injected"
"""Label and annotation of a pod that has its pair; the annotation's value is the version that put it in."""
WORKLOAD: Final = PREFIX + "workload"
"""Label of the name that Policies call the pod's workload by."""
AUTHORITY: Final = PREFIX + "control-plane-ca"
"""Annotation with the authority of the control plane's certificate (PEM), mounted as a file."""

PROCESSOR: Final = "outrigger-processor"
ENVOY: Final = "outrigger-envoy"
RUN_VOLUME: Final = "outrigger-run"
DATA_VOLUME: Final = "outrigger-data"
TOKEN_VOLUME: Final = "outrigger-token"
REDIS_VOLUME: Final = "outrigger-redis"
CONTAINERS: Final = frozenset({PROCESSOR, ENVOY})
VOLUMES: Final = frozenset({RUN_VOLUME, DATA_VOLUME, TOKEN_VOLUME, REDIS_VOLUME})

BASE_URL: Final = "OPENAI_BASE_URL"
AUDIENCE: Final = "outrigger"
"""Whom the service-account token of a sidecar is for."""

WORKLOAD_LABELS: Final = (WORKLOAD, "app.kubernetes.io/name", "app")
DEFAULT_WORKLOAD: Final = "default"
_CRON_RUN: Final = re.compile(r"-\d{8,10}$")


def workload_of(metadata: Mapping[str, Any], owner: str = "") -> str:
    """Return what Policies call the workload of a pod with this `metadata`.

    The first of the labels `outrigger.dev/workload`, `app.kubernetes.io/name` and `app`, else its owner's
    name: the Deployment's for a ReplicaSet's pod, the CronJob's for its Job's, else the pod's own.
    `owner` is that name where the metadata is a template's, which does not say it.
    """
    labels = metadata.get("labels") or {}
    for label in WORKLOAD_LABELS:
        value = labels.get(label)
        if isinstance(value, str) and value:
            return value
    if owner:
        return owner
    for above in metadata.get("ownerReferences") or ():
        if above.get("controller") and above.get("name"):
            return _above(str(above.get("kind")), str(above["name"]), labels)
    own = metadata.get("name") or str(metadata.get("generateName") or "").rstrip("-")
    return str(own or DEFAULT_WORKLOAD)


def _above(kind: str, name: str, labels: Mapping[str, Any]) -> str:
    """Return the name of what made the owner, where that shows in the owner's own name."""
    if kind == "ReplicaSet" and labels.get("pod-template-hash"):
        return name.removesuffix(f"-{labels['pod-template-hash']}") or name
    if kind == "Job":
        # https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs: the minute of the run.
        return _CRON_RUN.sub("", name) or name
    return name
