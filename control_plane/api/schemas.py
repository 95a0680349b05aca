"""JSON schemas of what the API takes and gives, for its OpenAPI document.

Specs of documents are described by their own models; durations, sizes and the like are described as they
are written, not as what they become inside.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue, models_json_schema
from pydantic_core import core_schema

from control_plane.api.operations import schema_ref
from control_plane.api.orders import (
    DURATION_PATTERN,
    KeyOrder,
    MirrorOrder,
    Order,
    PlayOrder,
    PurgeOrder,
    RotationOrder,
    SecretOrder,
    TokenOrder,
)
from control_plane.registry.verdicts import Reason
from control_plane.resources.kinds import KINDS
from control_plane.resources.kinds.spec import Spec
from control_plane.resources.names import MODEL_NAME, NAME
from control_plane.resources.parsing import API_VERSION

_REF: Final = "#/components/schemas/{model}"
_TEXT: Final = {"type": "string"}
_NUMBER: Final = {"type": "integer"}
_TRUTH: Final = {"type": "boolean"}
_AMOUNT: Final = {"type": "number"}
_SHARE: Final = {"type": ["number", "null"], "minimum": 0, "maximum": 1}
_TIME: Final = {"type": "string", "format": "date-time"}
_MAYBE_TIME: Final = {"type": ["string", "null"], "format": "date-time"}
_MAYBE_TEXT: Final = {"type": ["string", "null"]}
_TEXTS: Final = {"type": "array", "items": _TEXT}

_DURATION: Final = {"type": "string", "pattern": DURATION_PATTERN, "examples": ["200ms", "24h"]}
_SIZE: Final = {
    "anyOf": [
        {"type": "integer", "minimum": 1},
        {"type": "string", "pattern": r"^[0-9]+(\.[0-9]+)?(B|KiB|MiB|GiB|kB|KB|MB|GB)$"},
    ]
}
# How what a function reads first is written; by the function's name.
_WRITTEN: Final[Mapping[str, dict[str, Any]]] = {
    "parse_duration_ms": _DURATION,
    "parse_positive_duration_ms": _DURATION,
    "parse_size_bytes": _SIZE,
    "_written_time": _TIME,
    "_status_text": {"anyOf": [{"type": "string"}, {"type": "integer"}]},
    "_http_version": {"enum": ["auto", "1.1", "2", 1.1, 2]},
}


class _Written(GenerateJsonSchema):
    """Describes values as they are written."""

    def function_before_schema(self, schema: core_schema.BeforeValidatorFunctionSchema) -> JsonSchemaValue:
        """Describe what a function reads, where it reads something of its own."""
        name = getattr(schema["function"]["function"], "__name__", "")
        if name == "_webhook":
            return {"anyOf": [_TEXT, super().function_before_schema(schema)]}
        return dict(_WRITTEN[name]) if name in _WRITTEN else super().function_before_schema(schema)

    def field_title_should_be_set(self, schema: Any) -> bool:
        """Leave titles away: the names are titles enough."""
        return False

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        """Describe without the default: inside, it is not what would be written."""
        return self.generate_inner(schema["schema"])


def component_schemas() -> dict[str, Any]:
    """Return every schema by name."""
    specs: list[type[Spec] | type[Order]] = [
        *KINDS.values(),
        KeyOrder,
        RotationOrder,
        TokenOrder,
        SecretOrder,
        MirrorOrder,
        PurgeOrder,
        PlayOrder,
    ]
    _, found = models_json_schema(
        [(spec, "validation") for spec in specs], ref_template=_REF, schema_generator=_Written
    )
    schemas: dict[str, Any] = _without_inner_bounds(found["$defs"])
    for kind, spec in KINDS.items():
        schemas[kind] = _document(kind, spec)
        schemas[f"{kind}List"] = _list(schema_ref(kind), paged=True)
    return {**schemas, **_ANSWERS}


def _without_inner_bounds(value: Any) -> Any:
    """Leave away bounds that pydantic has no word for: they are of what a value becomes inside."""
    if isinstance(value, dict):
        return {key: _without_inner_bounds(item) for key, item in value.items() if key not in ("ge", "le")}
    return [_without_inner_bounds(item) for item in value] if isinstance(value, list) else value


def _document(kind: str, spec: type[Spec]) -> dict[str, Any]:
    name = {"type": "string", "pattern": f"^{MODEL_NAME if kind == 'Model' else NAME}$"}
    return {
        **_object(
            {
                "apiVersion": {"type": "string", "const": API_VERSION},
                "kind": {"type": "string", "const": kind},
                "metadata": {**_object({"name": name}), "additionalProperties": False},
                "spec": schema_ref(spec.__name__),
                "status": {"description": "Accepted and ignored when it is sent."},
            },
            optional=("apiVersion", "status"),
        ),
        "additionalProperties": False,
    }


def _object(properties: Mapping[str, Any], optional: tuple[str, ...] = ()) -> dict[str, Any]:
    required = [name for name in properties if name not in optional]
    return {"type": "object", "properties": dict(properties), "required": required}


def _list(item: Mapping[str, Any], *, paged: bool = False) -> dict[str, Any]:
    items = {"type": "array", "items": dict(item)}
    if not paged:
        return _object({"items": items})
    return _object(
        {"items": items, "next": {**_TEXT, "description": "Send it as `after`."}}, optional=("next",)
    )


_PROBLEM: Final = _object({"document": _TEXT, "field": _TEXT, "message": _TEXT})
_ACTION: Final = {"type": "string", "enum": ["create", "update", "delete", "unchanged"]}
_FIELD: Final = _object({"field": _TEXT, "before": {}, "after": {}})
_CHANGE: Final = _object(
    {"document": _TEXT, "action": _ACTION, "fields": {"type": "array", "items": _FIELD}}, optional=("fields",)
)
_CHANGES: Final = {"type": "array", "items": schema_ref("Change")}
_TOKEN: Final = {
    "id": _TEXT,
    "name": _TEXT,
    "role": {"type": "string", "enum": ["viewer", "editor", "admin", "sidecar"]},
    "scopes": _TEXTS,
    "createdAt": _TIME,
    "expiresAt": _MAYBE_TIME,
    "revokedAt": _MAYBE_TIME,
}
_REVISION: Final = {
    "revision": _NUMBER,
    "at": _TIME,
    "actor": _TEXT,
    "source": _TEXT,
    "action": _TEXT,
    "state": {"type": "string", "enum": ["accepted", "halted"]},
    "reason": _TEXT,
    "detail": _TEXT,
    "rolledBackTo": {"type": ["integer", "null"]},
    "changes": _CHANGES,
}
_AUDIT: Final = {
    "id": _NUMBER,
    "at": _TIME,
    "actor": _TEXT,
    "role": _TEXT,
    "source": _TEXT,
    "action": _TEXT,
    "target": _TEXT,
    "revision": {"type": ["integer", "null"]},
    "outcome": _TEXT,
    "detail": _TEXT,
}
_SIDECAR: Final = {
    "id": _TEXT,
    "workload": _TEXT,
    "labels": {"type": "object", "additionalProperties": _TEXT},
    "connected": _TRUTH,
    "pushed": _TEXT,
    "acknowledged": _TEXT,
    "nack": _MAYBE_TEXT,
    "inForce": _TRUTH,
    "replica": _TEXT,
}
_TIMES: Final = _object({key: {"type": ["number", "null"]} for key in ("p50", "p95")})
_KEY: Final = {
    "id": _TEXT,
    "consumer": _TEXT,
    "hint": _TEXT,
    "createdAt": _TIME,
    "expiresAt": _MAYBE_TIME,
    "revokedAt": _MAYBE_TIME,
}
_CACHE_TIER: Final = _object(
    {
        "tier": _TEXT,
        "hits": _NUMBER,
        "misses": _NUMBER,
        "hitRatio": _SHARE,
        "entries": _NUMBER,
        "bytes": _NUMBER,
    }
)
_CACHE_STATISTICS: Final = {
    "hits": _NUMBER,
    "misses": _NUMBER,
    "hitRatio": _SHARE,
    "tiers": {"type": "array", "items": _CACHE_TIER},
    "saved": _object(
        {"promptTokens": _NUMBER, "completionTokens": _NUMBER, "cost": _AMOUNT, "seconds": _AMOUNT}
    ),
    "hitAges": {
        "type": "array",
        "items": _object({"upToSeconds": {"type": ["number", "null"]}, "hits": _NUMBER}),
    },
    "semantic": _object(
        dict.fromkeys(("served", "explored", "vetoed", "wouldServe", "wouldBeWrong"), _NUMBER)
    ),
}
_CACHE_ENTRY: Final = {
    "key": _TEXT,
    "tier": _TEXT,
    "model": _TEXT,
    "version": _TEXT,
    "tenant": _TEXT,
    "ageSeconds": _AMOUNT,
    "expiresInSeconds": _AMOUNT,
    "stale": _TRUTH,
    "bytes": _NUMBER,
    "hits": _NUMBER,
    "sidecars": _TEXTS,
}
_ANSWERS: Final[dict[str, Any]] = {
    "Problem": _object(
        {
            "type": _TEXT,
            "title": _TEXT,
            "status": _NUMBER,
            "detail": _TEXT,
            "errors": {"type": "array", "items": _PROBLEM},
        }
    ),
    "Change": _CHANGE,
    "Applied": _object(
        {
            "revision": _NUMBER,
            "dryRun": _TRUTH,
            "changes": _CHANGES,
            "warnings": {"type": "array", "items": _PROBLEM},
        }
    ),
    "Revision": _object(_REVISION),
    "RevisionList": _list(schema_ref("Revision")),
    "Diff": _object({"revision": _NUMBER, "against": _NUMBER, "changes": _CHANGES}),
    "AuditList": _list(_object(_AUDIT)),
    "SidecarList": _list(_object(_SIDECAR)),
    "Snapshot": _object({"version": _TEXT, "revision": _NUMBER, "workload": _TEXT}),
    "Overview": _object(
        {
            "at": _TIME,
            "fleet": _object(
                {
                    **dict.fromkeys(("known", "connected", "inForce", "refused"), _NUMBER),
                    **dict.fromkeys(("revision", "revisionInForce"), _NUMBER),
                    "database": _TRUTH,
                }
            ),
            "documents": {"type": "object", "additionalProperties": _NUMBER},
            "whole": _TRUTH,
            "rates": {"type": "object", "additionalProperties": _AMOUNT},
            "sums": {"type": "object", "additionalProperties": _AMOUNT},
            "latency": _TIMES,
            "ttft": _TIMES,
            "series": {"type": "object"},
            "models": {"type": "array", "items": {"type": "object"}},
            "tiers": {"type": "array", "items": {"type": "object"}},
        }
    ),
    "Explanation": _object(
        {
            "model": _TEXT,
            "tier": _TEXT,
            "workload": _TEXT,
            "version": _TEXT,
            "fields": {
                "type": "array",
                "items": _object({"field": _TEXT, "value": {}, "policy": _MAYBE_TEXT}),
            },
        }
    ),
    "LimitUseList": _list(
        _object(
            {
                "kind": {"type": "string", "enum": ["tier", "consumer", "model"]},
                "name": _TEXT,
                "consumer": _MAYBE_TEXT,
                "requestsPerMinute": _NUMBER,
                "tokensPerMinute": _NUMBER,
                "tokensPerDay": _NUMBER,
                "costPerDay": _AMOUNT,
                "concurrency": _NUMBER,
            }
        )
    ),
    "Playground": _object({"proxy": _MAYBE_TEXT, "hint": _MAYBE_TEXT}),
    "NewKey": _object({"id": _TEXT, "consumer": _TEXT, "key": _TEXT, "expiresAt": _MAYBE_TIME}),
    "KeyList": _list(_object(_KEY)),
    "NewToken": _object({**_TOKEN, "token": _TEXT}),
    "TokenList": _list(_object(_TOKEN)),
    "SecretList": _list(_object({"name": _TEXT, "keys": _TEXTS, "changedAt": _TIME})),
    "Rotated": _object({"rotated": _NUMBER}),
    "CacheReport": _object(
        {
            "scope": _TEXT,
            "total": _object(_CACHE_STATISTICS),
            "sidecars": {
                "type": "array",
                "items": _object(
                    {"sidecar": _TEXT, "workload": _TEXT, "connected": _TRUTH, **_CACHE_STATISTICS}
                ),
            },
        }
    ),
    "CacheEntryList": _object(
        {
            "scope": _TEXT,
            "items": {"type": "array", "items": _object(_CACHE_ENTRY)},
            "unanswered": _TEXTS,
            "next": {**_TEXT, "description": "Send it as `after`."},
        },
        optional=("next",),
    ),
    "CacheEntry": _object(
        {**_CACHE_ENTRY, "contentType": _TEXT, "body": {"description": "The answer; null when too large."}}
    ),
    "Mirrored": _object(
        {
            "revision": _NUMBER,
            "items": {
                "type": "array",
                "items": _object(
                    {
                        "kind": _TEXT,
                        "name": _TEXT,
                        "accepted": _TRUTH,
                        "reason": {"type": "string", "enum": [reason.value for reason in Reason]},
                        "message": _TEXT,
                        "inForce": _TRUTH,
                        "revision": {"type": ["integer", "null"]},
                    }
                ),
            },
            "kept": {
                "type": "array",
                "items": _object({"kind": _TEXT, "name": _TEXT, "message": _TEXT}),
            },
        }
    ),
    "Mirror": _object(
        {
            "revision": _NUMBER,
            "items": {
                "type": "array",
                "items": _object(
                    {
                        "kind": _TEXT,
                        "name": _TEXT,
                        "revision": _NUMBER,
                        "programmed": _TRUTH,
                        "sidecars": _object({"current": _NUMBER, "total": _NUMBER}),
                    }
                ),
            },
            "releases": {"type": "object", "additionalProperties": {"type": "object"}},
            "sidecars": _object({"connected": _NUMBER}),
        }
    ),
    "Purged": _object(
        {
            "revision": _NUMBER,
            "at": _TIME,
            "tenant": _MAYBE_TEXT,
            "model": _MAYBE_TEXT,
            "version": _MAYBE_TEXT,
            "keyPrefix": _MAYBE_TEXT,
        }
    ),
    "Health": _object({"status": _TEXT}),
    "Readiness": _object(
        {"status": _TEXT, "sidecars": _NUMBER, "database": _TEXT, "reason": _TEXT}, optional=("reason",)
    ),
}
