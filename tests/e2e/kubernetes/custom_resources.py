"""Custom resources that tests write: the smallest of each kind, full ones, and ones that are refused."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

GROUP: Final = "/apis/outrigger.dev/v1alpha1"

PLURALS: Final = {
    "Backend": "backends",
    "Model": "models",
    "Tier": "tiers",
    "Consumer": "consumers",
    "Policy": "policies",
    "Release": "releases",
    "Pin": "pins",
}

URL: Final = "https://api.example.com/v1"
SECRET: Final = {"name": "openai", "key": "api-key"}
RELEASE: Final = {"model": "m", "from": "a", "to": "b"}

SMALLEST: Final[dict[str, dict[str, Any]]] = {
    "Backend": {"url": URL},
    "Model": {"versions": [{"name": "stable", "backend": "b"}]},
    "Tier": {"limits": {"requestsPerMinute": 60}},
    "Consumer": {"tenant": "team-a"},
    "Policy": {"failOpen": False},
    "Release": RELEASE,
    "Pin": {"model": "m", "match": {"lastUserMessage": "hi"}, "answer": "Welcome!"},
}

FULL: Final[dict[str, tuple[str, dict[str, Any]]]] = {
    "a Backend": (
        "Backend",
        {
            "url": URL,
            "default": True,
            "credentials": {"secretRef": SECRET},
            "quota": {"requestsPerMinute": 3500, "tokensPerMinute": 90000, "concurrency": 50},
            "timeouts": {"connect": "5s", "request": "1m30s", "streamIdle": "0.5m"},
            "http": "1.1",
            "warmup": {"requests": 50, "prompt": "Hello", "idleAfter": "10m"},
            "batch": {"maxItems": 10, "maxTokens": 1000},
        },
    ),
    "an azure Backend": (
        "Backend",
        {"url": URL, "protocol": "azure-openai", "apiVersion": "2024-06-01", "credentials": {"env": "KEY"}},
    ),
    "a Model": (
        "Model",
        {
            "aliases": ["fast"],
            "versions": [
                {"name": "stable", "backend": "b", "upstreamModel": "gpt-4o-mini-2024-07-18", "weight": 95},
                {"name": "candidate", "backend": "b", "weight": 0.5},
            ],
            "fallbacks": ["other"],
            "degrade": [{"userAgent": "*Mobile*", "model": "other"}, {"load": 0.8, "model": "other"}],
            "limits": {"tokensPerMinute": 5},
            "prices": {"inputPerMillion": 0.15, "outputPerMillion": 0.6},
        },
    ),
    "a Tier": (
        "Tier",
        {
            "match": {"header": {"x-outrigger-tier": "gold"}},
            "limits": {
                "requestsPerMinute": 600,
                "tokensPerMinute": 200000,
                "concurrency": 100,
                "tokensPerDay": 9,
                "costPerDay": 0.5,
                "countCached": True,
            },
            "priority": -10,
        },
    ),
    "a Consumer": ("Consumer", {"tenant": "t", "tier": "gold", "limits": {"concurrency": 1}}),
    "a Policy": (
        "Policy",
        {
            "target": {"models": ["gpt-4*"], "tiers": ["*"], "workloads": ["shop"]},
            "unknownModels": "refuse",
            "cache": {
                "enabled": True,
                "ttl": "24h",
                "scope": "tenant",
                "memoryEntries": 10,
                "memoryBytes": "64MiB",
                "maxTemperature": 0.5,
                "tiers": ["memory", "redis"],
                "staleIfError": "1h",
                "semantic": {"enabled": True, "maxErrorRate": 0.02, "mode": "shadow", "embedder": "local"},
            },
            "coalesce": {"enabled": True, "maxFollowers": 5},
            "batch": {"mode": "packed", "maxSize": 5, "maxWait": "200ms", "sendBelow": 2, "splitAbove": 5},
            "retry": {
                "attempts": 3,
                "base": "1s",
                "max": "8s",
                "retryOn": ["connect", "429", "5xx"],
                "budget": 0,
            },
            "hold": {"max": "0s"},
            "parameters": {
                "temperature": {"max": 0.3},
                "topP": {"default": 0.5},
                "maxTokens": {"max": 4096, "default": 10},
                "forbid": ["logit_bias"],
            },
            "session": {"enabled": True, "turns": 4, "ttl": "30m", "maxTokens": 100},
            "redaction": {"logs": True, "prompts": True, "entities": ["email"]},
            "limits": {"onRedisLoss": "refuse"},
        },
    ),
    "a Policy with bytes as a number": ("Policy", {"cache": {"memoryBytes": 1048576}}),
    "a Policy that asks for Consumers": ("Policy", {"requireConsumer": True, "failOpen": False}),
    "a Release": (
        "Release",
        {
            **RELEASE,
            "steps": [1, 25, 50.5, 100],
            "bake": "10m",
            "match": {
                "tiers": ["gold"],
                "userAgents": ["*"],
                "headers": {"x-beta": "yes"},
                "consumers": ["c"],
                "workloads": ["w"],
            },
            "stickyBy": ["consumer", "session", "ip"],
            "shadow": 0.1,
            "gates": {
                "errorRate": {"maxIncrease": 0.01},
                "latencyP95": {"maxRatio": 1.2},
                "ttftP95": {"maxRatio": 1.2},
                "cost": {"maxRatio": 2},
                "prometheus": [{"query": "up", "min": 1}],
                "minRequests": 200,
                "maxWait": "1h",
            },
        },
    ),
    "a Pin of an empty message": (
        "Pin",
        {"model": "m", "match": {"lastUserMessage": ""}, "answer": "Say something."},
    ),
}

REFUSED: Final[dict[str, tuple[str, dict[str, Any]]]] = {
    "credentials of two ways": ("Backend", {"url": URL, "credentials": {"env": "A", "file": "/b"}}),
    "credentials of three ways": (
        "Backend",
        {"url": URL, "credentials": {"env": "A", "file": "/b", "secretRef": SECRET}},
    ),
    "credentials of no way": ("Backend", {"url": URL, "credentials": {}}),
    "half a secretRef": ("Backend", {"url": URL, "credentials": {"secretRef": {"name": "a"}}}),
    "no url": ("Backend", {"default": True}),
    "a url of another scheme": ("Backend", {"url": "ftp://api.example.com/v1"}),
    "a url without a scheme": ("Backend", {"url": "api.example.com/v1"}),
    "a url without a host": ("Backend", {"url": "https://"}),
    "a url of capitals": ("Backend", {"url": "HTTPFOO://x"}),
    "a url with a password": ("Backend", {"url": "https://user:word@api.example.com/v1"}),
    "an unknown protocol": ("Backend", {"url": URL, "protocol": "gemini"}),
    "an unknown HTTP version": ("Backend", {"url": URL, "http": "3"}),
    "a default that is text": ("Backend", {"url": URL, "default": "true"}),
    "an unknown field": ("Backend", {"url": URL, "uri": URL}),
    "an unknown field deep inside": ("Backend", {"url": URL, "timeouts": {"conect": "5s"}}),
    "a duration without a unit": ("Backend", {"url": URL, "timeouts": {"connect": "5"}}),
    "a duration as a number": ("Backend", {"url": URL, "timeouts": {"connect": 5}}),
    "a duration of days": ("Backend", {"url": URL, "timeouts": {"connect": "1d"}}),
    "a negative duration": ("Backend", {"url": URL, "timeouts": {"connect": "-5s"}}),
    "a duration with a line after it": ("Backend", {"url": URL, "timeouts": {"connect": "5s\n"}}),
    "a quota below 1": ("Backend", {"url": URL, "quota": {"requestsPerMinute": 0}}),
    "a quota that is a fraction": ("Backend", {"url": URL, "quota": {"concurrency": 1.5}}),
    "a batch capacity below 1": ("Backend", {"url": URL, "batch": {"maxItems": 0}}),
    "apiVersion without azure": ("Backend", {"url": URL, "apiVersion": "2024-06-01"}),
    "an azure default": ("Backend", {"url": URL, "protocol": "azure-openai", "default": True}),
    "no versions": ("Model", {}),
    "an empty list of versions": ("Model", {"versions": []}),
    "double version names": (
        "Model",
        {"versions": [{"name": "a", "backend": "b"}, {"name": "a", "backend": "c"}]},
    ),
    "a version without a Backend": ("Model", {"versions": [{"name": "a"}]}),
    "a negative weight": ("Model", {"versions": [{"name": "a", "backend": "b", "weight": -1}]}),
    "a weight that is text": ("Model", {"versions": [{"name": "a", "backend": "b", "weight": "5"}]}),
    "only weights of 0": (
        "Model",
        {
            "versions": [
                {"name": "a", "backend": "b", "weight": 0},
                {"name": "c", "backend": "b", "weight": 0},
            ]
        },
    ),
    "degrade without a condition": (
        "Model",
        {"versions": [{"name": "a", "backend": "b"}], "degrade": [{"model": "m"}]},
    ),
    "a negative price": (
        "Model",
        {"versions": [{"name": "a", "backend": "b"}], "prices": {"inputPerMillion": -1}},
    ),
    "a limit below 1": ("Tier", {"limits": {"requestsPerMinute": 0}}),
    "a cost of 0": ("Tier", {"limits": {"costPerDay": 0}}),
    "an unknown limit": ("Tier", {"limits": {"requestsPerHour": 5}}),
    "a Consumer without a tenant": ("Consumer", {}),
    "a Consumer with an empty tenant": ("Consumer", {"tenant": ""}),
    "an unknown cache scope": ("Policy", {"cache": {"scope": "world"}}),
    "an unknown batch mode": ("Policy", {"batch": {"mode": "zip"}}),
    "a batch size below 1": ("Policy", {"batch": {"maxSize": 0}}),
    "a wait of nothing": ("Policy", {"batch": {"maxWait": ""}}),
    "an error rate above 1": ("Policy", {"cache": {"semantic": {"maxErrorRate": 1.1}}}),
    "a negative error rate": ("Policy", {"cache": {"semantic": {"maxErrorRate": -0.1}}}),
    "a retry budget above 1": ("Policy", {"retry": {"budget": 2}}),
    "no attempts": ("Policy", {"retry": {"attempts": 0}}),
    "an unknown reason to retry": ("Policy", {"retry": {"retryOn": ["sometimes"]}}),
    "a size of an unknown unit": ("Policy", {"cache": {"memoryBytes": "64 bananas"}}),
    "a size of 0": ("Policy", {"cache": {"memoryBytes": 0}}),
    "an unknown cache tier": ("Policy", {"cache": {"tiers": ["disk"]}}),
    "an unknown entity": ("Policy", {"redaction": {"entities": ["shoe-size"]}}),
    "no turns": ("Policy", {"session": {"turns": 0}}),
    "topP above 1": ("Policy", {"parameters": {"topP": {"max": 1.5}}}),
    "a default above the cap": ("Policy", {"parameters": {"maxTokens": {"max": 5, "default": 6}}}),
    "requireConsumer with failOpen": ("Policy", {"requireConsumer": True, "failOpen": True}),
    "failOpen for some models": ("Policy", {"target": {"models": ["a"]}, "failOpen": False}),
    "a pattern with * inside": ("Policy", {"target": {"models": ["a*b"]}, "hold": {"max": "1s"}}),
    "a Policy of an unknown field": ("Policy", {"fail_open": True}),
    "an unknown way without Redis": ("Policy", {"limits": {"onRedisLoss": "panic"}}),
    "from is to": ("Release", {**RELEASE, "to": "a"}),
    "steps that fall": ("Release", {**RELEASE, "steps": [5, 50, 25]}),
    "steps that stay": ("Release", {**RELEASE, "steps": [5, 5]}),
    "a step of 0": ("Release", {**RELEASE, "steps": [0, 50]}),
    "a step above 100": ("Release", {**RELEASE, "steps": [5, 101]}),
    "no steps": ("Release", {**RELEASE, "steps": []}),
    "a Release without a model": ("Release", {"from": "a", "to": "b"}),
    "a shadow share above 1": ("Release", {**RELEASE, "shadow": 1.5}),
    "an increase above 1": ("Release", {**RELEASE, "gates": {"errorRate": {"maxIncrease": 1.5}}}),
    "a ratio of 0": ("Release", {**RELEASE, "gates": {"latencyP95": {"maxRatio": 0}}}),
    "minRequests of 0": ("Release", {**RELEASE, "gates": {"minRequests": 0}}),
    "an unknown sticky key": ("Release", {**RELEASE, "stickyBy": ["shoe"]}),
    "a query with max and min": (
        "Release",
        {**RELEASE, "gates": {"prometheus": [{"query": "up", "max": 1, "min": 0}]}},
    ),
    "a query without a bound": ("Release", {**RELEASE, "gates": {"prometheus": [{"query": "up"}]}}),
    "a Pin without an answer": ("Pin", {"model": "m", "match": {"lastUserMessage": "hi"}}),
    "a Pin without a match": ("Pin", {"model": "m", "answer": "x"}),
    "an unknown way to match": (
        "Pin",
        {"model": "m", "match": {"firstUserMessage": "hi", "lastUserMessage": "x"}, "answer": "x"},
    ),
}


def path(kind: str, name: str | None = None) -> str:
    """Return the path of a kind's collection, or of one object."""
    return f"{GROUP}/{PLURALS[kind]}" + (f"/{name}" if name else "")


def resource(kind: str, name: str, spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return a custom resource as it is written."""
    return {
        "apiVersion": "outrigger.dev/v1alpha1",
        "kind": kind,
        "metadata": {"name": name},
        "spec": dict(spec),
    }
