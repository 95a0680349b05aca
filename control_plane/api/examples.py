"""One example of each kind of document; together they are a valid set."""

from __future__ import annotations

from typing import Any, Final

import yaml

from control_plane.resources.parsing import API_VERSION


def _document(kind: str, name: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": {"name": name}, "spec": spec}


EXAMPLES: Final[dict[str, dict[str, Any]]] = {
    "Backend": _document(
        "Backend",
        "openai",
        {"url": "https://api.openai.com/v1", "default": True, "credentials": {"env": "OPENAI_API_KEY"}},
    ),
    "Model": _document(
        "Model",
        "gpt-4o-mini",
        {
            "aliases": ["fast"],
            "versions": [
                {"name": "stable", "backend": "openai", "upstreamModel": "gpt-4o-mini-2024-07-18"},
                {
                    "name": "candidate",
                    "backend": "openai",
                    "upstreamModel": "gpt-4o-mini-2025-02-01",
                    "weight": 5,
                },
            ],
        },
    ),
    "Tier": _document("Tier", "gold", {"match": {"header": {"x-outrigger-tier": "gold"}}, "priority": 10}),
    "Consumer": _document("Consumer", "team-a", {"tenant": "team-a", "tier": "gold"}),
    "Policy": _document(
        "Policy",
        "cached",
        {"target": {"models": ["gpt-4o-mini"]}, "cache": {"enabled": True, "ttl": "24h"}},
    ),
    "Release": _document(
        "Release", "mini-2025-02", {"model": "gpt-4o-mini", "from": "stable", "to": "candidate"}
    ),
    "Pin": _document(
        "Pin",
        "welcome",
        {"model": "gpt-4o-mini", "match": {"lastUserMessage": "hi"}, "answer": "Welcome!"},
    ),
}


def example_yaml(*kinds: str) -> str:
    """Return the examples of `kinds` as one YAML text."""
    documents = [EXAMPLES[kind] for kind in kinds]
    return yaml.safe_dump_all(documents, sort_keys=False, default_flow_style=None)
