"""The built-in demo: what `outrigger up` serves when no file is given."""

from __future__ import annotations

from typing import Any

import yaml

from control_plane.resources.parsing import API_VERSION


def demo_documents(provider_url: str) -> list[dict[str, Any]]:
    """Return the demo's documents; `provider_url` is the simulated provider's base URL (with `/v1`)."""
    one = {"name": "stable", "backend": "simulated"}
    specs: list[tuple[str, str, dict[str, Any]]] = [
        ("Backend", "simulated", {"url": provider_url, "default": True}),
        ("Model", "gpt-4o-mini", {"aliases": ["fast"], "versions": [one]}),
        (
            "Model",
            "gpt-4o",
            {
                "versions": [
                    {**one, "upstreamModel": "gpt-4o-2024-08-06", "weight": 95},
                    {
                        "name": "candidate",
                        "backend": "simulated",
                        "upstreamModel": "gpt-4o-2024-11-20",
                        "weight": 5,
                    },
                ]
            },
        ),
        ("Model", "text-embedding-3-small", {"versions": [dict(one)]}),
        (
            "Tier",
            "free",
            {
                "match": {"header": {"x-outrigger-tier": "free"}},
                "limits": {"requestsPerMinute": 60, "tokensPerMinute": 20_000, "concurrency": 10},
            },
        ),
        (
            "Tier",
            "gold",
            {
                "match": {"header": {"x-outrigger-tier": "gold"}},
                "limits": {"requestsPerMinute": 600, "tokensPerMinute": 200_000, "concurrency": 100},
                "priority": 10,
            },
        ),
        ("Policy", "demo", _POLICY),
    ]
    return [
        {"apiVersion": API_VERSION, "kind": kind, "metadata": {"name": name}, "spec": spec}
        for kind, name, spec in specs
    ]


_POLICY: dict[str, Any] = {
    "target": {"models": ["*"], "tiers": ["*"], "workloads": ["*"]},
    "failOpen": True,
    "unknownModels": "pass",
    "requireConsumer": False,
    "cache": {
        "enabled": True,
        "ttl": "24h",
        "scope": "tenant",
        "memoryEntries": 10_000,
        "maxTemperature": 2,
        "semantic": {"enabled": False, "maxErrorRate": 0.01},
    },
    "coalesce": {"enabled": True},
    "batch": {"mode": "none", "maxSize": 50, "maxWait": "200ms", "sendBelow": 5, "splitAbove": 20},
    "retry": {"attempts": 3, "base": "1s", "max": "8s", "retryOn": ["connect", "reset", "429", "5xx"]},
    "hold": {"max": "10s"},
    "parameters": {"temperature": {"max": 0.3}, "maxTokens": {"max": 4096}},
    "session": {"enabled": False, "turns": 4, "ttl": "30m"},
    "redaction": {"logs": True, "prompts": False},
}


def demo_yaml(provider_url: str) -> str:
    """Return the demo as a file of documents that a user may copy and change."""
    return yaml.safe_dump_all(demo_documents(provider_url), sort_keys=False)
