"""`outrigger install`: the manifests of a trial in Kubernetes, for whoever has no Helm at hand.

`install.yaml` beside this file is the chart with its default values (`make manifests` renders it), in which
three words stand for what the command is told.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Iterator
from enum import StrEnum
from importlib.resources import files
from typing import Annotated, Any, Final

import typer
import yaml

from control_plane.webhook.settings import ENVOY_IMAGE as DEFAULT_ENVOY_IMAGE
from control_plane.webhook.settings import default_image

NAMESPACE: Final = "namespace-of-outrigger"
IMAGE: Final = "image-of-outrigger:tag"
ENVOY_IMAGE: Final = "image-of-envoy:tag"
ADMIN_SECRET: Final = "outrigger-admin"

DEFAULT_NAMESPACE: Final = "outrigger-system"
_NAMESPACE_FORM: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_IMAGE_FORM: Final = re.compile(r"[a-z0-9][\w.:/-]*(@sha256:[0-9a-f]{64})?", re.ASCII)


class Output(StrEnum):
    """How manifests are printed."""

    YAML = "yaml"
    JSON = "json"


def install(
    *,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print them; nothing is applied.")] = False,
    namespace: Annotated[
        str, typer.Option("--namespace", "-n", metavar="NAME", help="Where the mesh lives; it is made too.")
    ] = DEFAULT_NAMESPACE,
    image: Annotated[
        str | None,
        typer.Option(metavar="IMAGE", help="Image of Outrigger; by default outrigger with this version."),
    ] = None,
    envoy_image: Annotated[
        str, typer.Option(metavar="IMAGE", help="Image of Envoy, whose ENTRYPOINT is envoy.")
    ] = DEFAULT_ENVOY_IMAGE,
    output: Annotated[Output, typer.Option("--output", "-o", help="How to print them.")] = Output.YAML,
) -> None:
    """Print the manifests of a trial in Kubernetes: control plane on SQLite, controller, webhook, CRDs.

    The cluster is not asked. Pipe them to `kubectl apply --server-side -f -`; each print has a new admin
    token, in a Secret. For all other settings, and for production: helm install outrigger k8s/chart.
    """
    if not dry_run:
        raise typer.BadParameter(
            "is needed: this command only prints; pipe it to `kubectl apply --server-side -f -`, "
            "or install the chart by Helm",
            param_hint="--dry-run",
        )
    if not _NAMESPACE_FORM.fullmatch(namespace):
        raise typer.BadParameter("is no name of a namespace", param_hint="--namespace")
    wanted = image or default_image()
    for option, name in (("--image", wanted), ("--envoy-image", envoy_image)):
        if not _IMAGE_FORM.fullmatch(name):
            raise typer.BadParameter("is no name of an image (REPOSITORY:TAG)", param_hint=option)
    text = "---\n".join(manifests(namespace, wanted, envoy_image, secrets.token_urlsafe(36)))
    if output is Output.JSON:
        items = list(yaml.load_all(text, Loader=yaml.CSafeLoader))
        text = json.dumps({"apiVersion": "v1", "kind": "List", "items": items}, indent=2) + "\n"
    from control_plane.cli.printing import write  # noqa: PLC0415 - keeps --help quick

    write(text)


def manifests(namespace: str, image: str, envoy_image: str, admin_token: str) -> Iterator[str]:
    """Yield YAML texts in the order in which they can be applied (pure but for the files of the package)."""
    from control_plane.crds.definitions import files as definitions  # noqa: PLC0415 - keeps --help quick

    yield from definitions().values()
    labels = {
        "pod-security.kubernetes.io/enforce": "restricted",
        "app.kubernetes.io/managed-by": "outrigger",
    }
    yield _written("Namespace", {"name": namespace, "labels": labels})
    yield _written(
        "Secret",
        {"name": ADMIN_SECRET, "namespace": namespace, "labels": {"app.kubernetes.io/part-of": "outrigger"}},
        type="Opaque",
        stringData={"token": admin_token},
    )
    text = files(__package__).joinpath("install.yaml").read_text(encoding="utf-8")
    yield text.replace(NAMESPACE, namespace).replace(ENVOY_IMAGE, envoy_image).replace(IMAGE, image)


def _written(kind: str, metadata: dict[str, Any], **more: Any) -> str:
    return yaml.safe_dump(
        {"apiVersion": "v1", "kind": kind, "metadata": metadata, **more}, sort_keys=False, allow_unicode=True
    )
