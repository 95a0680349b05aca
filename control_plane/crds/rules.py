"""What a schema cannot take from the models' types: rules in CEL, patterns and bounds, by class and field.

The API server estimates what a rule costs at its worst, so everything that a rule walks over is bounded.
Only what one resource shows by itself is here; what needs others is the control plane's verdict.
https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/#validation-rules
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from control_plane.resources.kinds.spec import LINE
from control_plane.resources.kinds.tier import HEADER_VALUE
from control_plane.resources.names import MODEL_NAME, NAME, SECRET_NAME

MAX_ITEMS: Final = 1_000
"""How many items a list may have where the models set no bound."""
MAX_PROPERTIES: Final = 64
MAX_HEADER: Final = 8_192


@dataclass(frozen=True, slots=True)
class Rule:
    """An expression over `self` that must be true, and what is said when it is not."""

    rule: str
    message: str


_WIDE: Final = " && ".join(
    f"(!has(self.target.{names}) || (self.target.{names}.size() == 1 && self.target.{names}[0] == '*'))"
    for names in ("models", "tiers")
)
_BOUND: Final = Rule(
    "!has(self.max) || !has(self.default) || self.default <= self.max", "default must not be above max"
)

RULES: Final[dict[str, tuple[Rule, ...]]] = {
    "BackendSpec": (
        Rule(
            "!has(self.apiVersion) || (has(self.protocol) && self.protocol == 'azure-openai')",
            "apiVersion is for protocol azure-openai only",
        ),
        Rule(
            "!has(self.default) || !self.default || !has(self.protocol) || self.protocol != 'azure-openai'",
            "default cannot be true for protocol azure-openai",
        ),
    ),
    "Credentials": (
        Rule(
            "(has(self.env) ? 1 : 0) + (has(self.file) ? 1 : 0) + (has(self.secretRef) ? 1 : 0) == 1",
            "must have exactly one of env, file and secretRef",
        ),
    ),
    "ModelSpec": (
        Rule(
            "self.versions.exists(version, !has(version.weight) || version.weight > 0.0)",
            "versions need at least one weight above 0",
        ),
    ),
    "DegradeSpec": (
        Rule(
            "has(self.userAgent) || has(self.tier) || has(self.load)",
            "needs a condition: userAgent, tier or load",
        ),
    ),
    "PolicySpec": (
        Rule(
            f"!has(self.failOpen) || !has(self.target) || ({_WIDE})",
            "failOpen is one value per workload: no target of such a Policy names models or tiers",
        ),
        Rule(
            "!has(self.requireConsumer) || !self.requireConsumer || !has(self.failOpen) || !self.failOpen",
            "requireConsumer needs failOpen: false",
        ),
    ),
    "Retry": (
        Rule(
            "!has(self.base) || !has(self.max) || duration(self.base) <= duration(self.max)",
            "base must not be above max",
        ),
    ),
    "Bound": (_BOUND,),
    "CountBound": (_BOUND,),
    "ShareBound": (_BOUND,),
    "PrometheusGate": (Rule("has(self.max) != has(self.min)", "must have exactly one of max and min"),),
    "ReleaseSpec": (Rule("self.from != self.to", "from and to must be different versions"),),
}
"""Rules of a class."""

_URL: Final = Rule(
    "self.matches('^[Hh][Tt][Tt][Pp][Ss]?://[^/?#@]+([/?#]|$)')",
    "must begin with http:// or https:// and a host, without user or password",
)
_SECRET_NAME: Final = {"pattern": f"^{SECRET_NAME}$", "maxLength": 253}
_HEADERS: Final = {
    "maxProperties": MAX_PROPERTIES,
    "additionalProperties": {"pattern": f"^{HEADER_VALUE}$", "maxLength": MAX_HEADER},
}
_PATTERNS: Final = {"items": {"pattern": r"^([^*]*|[^*]*\*)$"}}

FIELDS: Final[dict[str, dict[str, Any]]] = {
    "BackendSpec.url": {"maxLength": 2_048, "x-kubernetes-validations": [_URL]},
    "BackendSpec.apiVersion": {"pattern": r"^[A-Za-z0-9._-]{1,64}$", "maxLength": 64},
    "Credentials.env": {"pattern": r"^[A-Za-z_][A-Za-z0-9_]*$", "maxLength": 1_024},
    "SecretRef.name": _SECRET_NAME,
    "SecretRef.key": _SECRET_NAME,
    "ModelSpec.versions": {
        "maxItems": 100,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["name"],
    },
    "ModelSpec.aliases": {
        "maxItems": 100,
        "x-kubernetes-list-type": "set",
        "items": {"pattern": f"^{MODEL_NAME}$", "maxLength": 253},
    },
    "ModelSpec.degrade": {"maxItems": 100},
    "VersionSpec.upstreamModel": {"pattern": f"^{LINE}$"},
    "VersionSpec.name": {"pattern": f"^{NAME}$", "maxLength": 253},
    "TierMatch.header": _HEADERS,
    "Testers.headers": _HEADERS,
    "ReleaseMatch.headers": _HEADERS,
    "Target.models": {"maxItems": MAX_ITEMS, **_PATTERNS},
    "Target.tiers": {"maxItems": MAX_ITEMS, **_PATTERNS},
    "Target.workloads": {"maxItems": MAX_ITEMS, **_PATTERNS},
    "Retry.retryOn": {
        "maxItems": 100,
        "items": {
            "pattern": r"^(connect|reset|5xx|context-length|content-filter|[45][0-9]{2})$",
            "maxLength": 64,
        },
    },
    "ReleaseSpec.steps": {
        "maxItems": 100,
        "x-kubernetes-validations": [
            Rule(
                "self.isSorted() && self.all(step, self.exists_one(other, other == step))",
                "steps must increase",
            )
        ],
    },
    "Webhook.url": {"maxLength": 2_048, "x-kubernetes-validations": [_URL]},
}
"""Patterns, bounds and rules of a field; merged into what its type gives, `items` and values too."""
