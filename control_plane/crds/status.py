"""The schema of `status`, and the names that stand in it (pure).

https://kubernetes.io/docs/reference/using-api/api-concepts/, KEP-1623 for conditions.
"""

from __future__ import annotations

from typing import Any, Final

ACCEPTED: Final = "Accepted"
PROGRAMMED: Final = "Programmed"
MAX_MESSAGE: Final = 32_768

_CONDITION: Final[dict[str, Any]] = {
    "type": "object",
    "required": ["type", "status", "lastTransitionTime", "reason", "message"],
    "properties": {
        "type": {
            "description": "Accepted: the resource is right and in the control plane. "
            "Programmed: it is in what sidecars are given.",
            "type": "string",
            "maxLength": 316,
        },
        "status": {
            "description": "Whether the condition holds.",
            "type": "string",
            "enum": ["True", "False", "Unknown"],
        },
        "observedGeneration": {
            "description": "The generation of the resource that this was said of.",
            "type": "integer",
            "format": "int64",
            "minimum": 0,
        },
        "lastTransitionTime": {
            "description": "When the condition's status last changed.",
            "type": "string",
            "format": "date-time",
        },
        "reason": {
            "description": "Why, in one word for programs.",
            "type": "string",
            "minLength": 1,
            "maxLength": 1_024,
        },
        "message": {"description": "Why, for people.", "type": "string", "maxLength": MAX_MESSAGE},
    },
}

_SHARED: Final[dict[str, Any]] = {
    "observedGeneration": {
        "description": "The generation of the resource that the status is of.",
        "type": "integer",
        "format": "int64",
        "minimum": 0,
    },
    "conditions": {
        "description": "What holds for the resource: Accepted and Programmed.",
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
        "maxItems": 8,
        "items": _CONDITION,
    },
    "sidecars": {
        "description": "How many sidecars have the resource as it is now.",
        "type": "object",
        "properties": {
            "current": {
                "description": "Sidecars that have acknowledged it.",
                "type": "integer",
                "format": "int64",
                "minimum": 0,
            },
            "total": {
                "description": "Sidecars that are connected.",
                "type": "integer",
                "format": "int64",
                "minimum": 0,
            },
        },
    },
}

_RELEASE: Final[dict[str, Any]] = {
    "phase": {"description": "What the Release is doing.", "type": "string", "maxLength": 64},
    "step": {
        "description": "The step it is at, counted from 1; 0 before the first.",
        "type": "integer",
        "format": "int64",
        "minimum": 0,
    },
    "share": {
        "description": "The share of the calls, in per cent, that the new version gets.",
        "type": "number",
        "minimum": 0,
        "maximum": 100,
    },
    "lastDecision": {
        "description": "Why it is where it is.",
        "type": "string",
        "maxLength": MAX_MESSAGE,
    },
}


def status_schema(kind: str) -> dict[str, Any]:
    """Return the schema of the status of `kind`."""
    more = _RELEASE if kind == "Release" else {}
    return {"type": "object", "properties": {**_SHARED, **more}}
