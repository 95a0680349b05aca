"""The custom resource definitions of every kind, as objects and as the text of files (pure).

Cluster-scoped, as documents are: a name means one thing in the whole mesh.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import yaml

from control_plane.crds.descriptions import ITEMS
from control_plane.crds.schema import spec_schema
from control_plane.crds.status import status_schema
from control_plane.resources.kinds import KINDS
from control_plane.resources.parsing import API_VERSION
from control_plane.resources.plurals import PLURAL_OF

GROUP, VERSION = API_VERSION.split("/")
_BOOLEANS: Final = frozenset({"y", "Y", "n", "N"})
CATEGORY: Final = "outrigger"
SHORT_NAMES: Final = {
    "Backend": "orb",
    "Model": "orm",
    "Tier": "ort",
    "Consumer": "orc",
    "Policy": "orp",
    "Release": "orr",
    "Pin": "orpin",
}


@dataclass(frozen=True, slots=True)
class Column:
    """A column of `kubectl get`; one of priority 1 shows with `-o wide` only."""

    name: str
    path: str
    type: str = "string"
    priority: int = 0

    def written(self) -> dict[str, Any]:
        """Return it as a definition has it."""
        column: dict[str, Any] = {"name": self.name, "type": self.type, "jsonPath": self.path}
        return {**column, "priority": self.priority} if self.priority else column


def _condition(name: str, part: str) -> str:
    return f'.status.conditions[?(@.type=="{name}")].{part}'


COLUMNS: Final[dict[str, tuple[Column, ...]]] = {
    "Backend": (Column("URL", ".spec.url"), Column("Default", ".spec.default", "boolean", 1)),
    "Model": (),
    "Tier": (Column("Priority", ".spec.priority", "integer"),),
    "Consumer": (Column("Tenant", ".spec.tenant"), Column("Tier", ".spec.tier")),
    "Policy": (),
    "Release": (
        Column("Model", ".spec.model"),
        Column("From", ".spec.from", priority=1),
        Column("To", ".spec.to"),
        Column("Phase", ".status.phase"),
        Column("Step", ".status.step", "integer"),
        Column("Share", ".status.share", "number"),
        Column("Decision", ".status.lastDecision", priority=1),
    ),
    "Pin": (Column("Model", ".spec.model"),),
}
"""Columns of a kind, before those that all have."""

SHARED_COLUMNS: Final = (
    Column("Accepted", _condition("Accepted", "status")),
    Column("Programmed", _condition("Programmed", "status")),
    Column("Reason", _condition("Accepted", "reason"), priority=1),
    Column("Sidecars", ".status.sidecars.current", "integer", 1),
    Column("Age", ".metadata.creationTimestamp", "date"),
)

_API_VERSION_TEXT: Final = f"Which form of the resource this is: {API_VERSION}."
_KIND_TEXT: Final = "Which kind of resource this is."
_SPEC_TEXT: Final = "What is wanted."
_STATUS_TEXT: Final = "What the controller says; nobody else writes it."


def definition(kind: str) -> dict[str, Any]:
    """Return the CustomResourceDefinition of `kind`.

    Raises:
        KeyError: there is no such kind.
    """
    plural = PLURAL_OF[kind]
    spec = KINDS[kind]
    schema = {
        "description": ITEMS[spec.__name__],
        "type": "object",
        "required": ["spec"],
        "properties": {
            "apiVersion": {"description": _API_VERSION_TEXT, "type": "string"},
            "kind": {"description": _KIND_TEXT, "type": "string"},
            "metadata": {"type": "object"},
            "spec": {"description": _SPEC_TEXT, **spec_schema(spec)},
            "status": {"description": _STATUS_TEXT, **status_schema(kind)},
        },
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "names": {
                "kind": kind,
                "listKind": f"{kind}List",
                "plural": plural,
                "singular": kind.lower(),
                "shortNames": [SHORT_NAMES[kind]],
                "categories": [CATEGORY],
            },
            "scope": "Cluster",
            "versions": [
                {
                    "name": VERSION,
                    "served": True,
                    "storage": True,
                    "subresources": {"status": {}},
                    "additionalPrinterColumns": [
                        column.written() for column in (*COLUMNS[kind], *SHARED_COLUMNS)
                    ],
                    "schema": {"openAPIV3Schema": schema},
                }
            ],
        },
    }


def files() -> dict[str, str]:
    """Return the YAML of every definition by the name of its file."""
    return {
        f"{GROUP}_{plural}.yaml": yaml.dump(
            definition(kind), Dumper=_Dumper, sort_keys=False, width=110, allow_unicode=True
        )
        for kind, plural in PLURAL_OF.items()
    }


class _Dumper(yaml.SafeDumper):
    """Writes what stands twice twice: anchors are nobody's to read.

    Quotes what YAML 1.1 takes for a boolean and PyYAML does not, as Kubernetes' own parser reads `n` so.
    """

    def ignore_aliases(self, data: object) -> bool:
        """Say that nothing is an alias."""
        return True


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    style = '"' if value in _BOOLEANS else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


_Dumper.add_representer(str, _text)
