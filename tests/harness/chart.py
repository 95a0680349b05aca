"""The Helm chart, rendered in process. `python -m tests.harness.chart FILE` writes what `install` prints.

The chart is the source. What the wheel carries of it is its rendering with the default values, in which
words stand for what the command is told; the definitions of custom resources are in the wheel anyway.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import helm_python
import yaml

from control_plane.cli.install import ADMIN_SECRET, ENVOY_IMAGE, IMAGE, NAMESPACE

CHART: Final = Path(__file__).parents[2] / "k8s" / "chart"
PRODUCTION: Final = CHART / "values-production.yaml"
KIND: Final = re.compile(r"^kind: (\w+)$", re.MULTILINE)
FIRST_KINDS: Final = (
    "ServiceAccount",
    "Secret",
    "ConfigMap",
    "PersistentVolumeClaim",
    "ClusterRole",
    "ClusterRoleBinding",
    "Role",
    "RoleBinding",
    "Service",
)
"""What others need; the rest comes after, the webhook's registration last."""


def texts(
    values: Mapping[str, Any] | None = None, *, name: str = "outrigger", namespace: str = "outrigger-system"
) -> Iterator[str]:
    """Yield the text of each rendered object.

    Raises:
        helm_python.HelmError: the values are refused.
    """
    with helm_python.Chart.load(CHART) as chart:
        rendered = chart.render(dict(values or {}), name=name, namespace=namespace)
    for path, text in sorted(rendered.items()):
        if path.endswith(".yaml"):
            yield from (part.strip() for part in text.split("\n---\n") if KIND.search(part))


def objects(values: Mapping[str, Any] | None = None, **release: str) -> list[dict[str, Any]]:
    """Return each rendered object.

    Raises:
        helm_python.HelmError: the values are refused.
    """
    return [yaml.load(text, Loader=yaml.CSafeLoader) for text in texts(values, **release)]


def install_text() -> str:
    """Return what `outrigger install` fills in: the default values, in an order that can be applied."""
    repository, _, tag = IMAGE.partition(":")
    envoy, _, envoy_tag = ENVOY_IMAGE.partition(":")
    values = {
        "image": {"repository": repository, "tag": tag},
        "sidecar": {"envoy": {"repository": envoy, "tag": envoy_tag}},
        "controlPlane": {"adminToken": {"existingSecret": ADMIN_SECRET}},
    }
    found = sorted(texts(values, namespace=NAMESPACE), key=_place)
    text = "\n---\n".join(part.removeprefix("---\n") for part in found)
    return f"{text}\n".replace("managed-by: Helm", "managed-by: outrigger")


def _place(text: str) -> tuple[int, bool]:
    found = KIND.search(text)
    assert found is not None
    kind = found[1]
    known = kind in FIRST_KINDS
    return FIRST_KINDS.index(kind) if known else len(FIRST_KINDS), kind == "MutatingWebhookConfiguration"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(install_text(), encoding="utf-8")
