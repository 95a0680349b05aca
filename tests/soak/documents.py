"""The policy of the mesh under soak, and the changes that are made to it meanwhile."""

from __future__ import annotations

from typing import Any, Final

PLACES: Final = 24
NARROW: Final = 6
TURNS: Final = 3
MODELS: Final = ("plain", "limited", "embed", "array", "session", "cached", "crowd", "narrow")

_DOCUMENTS: Final = """\
kind: Backend
metadata: {{name: sim}}
spec:
  url: "{url}/v1"
  default: true
  credentials: {{file: "{key_file}"}}
  timeouts: {{connect: 1s, request: 15s, streamIdle: 20s}}
---
kind: Backend
metadata: {{name: bounded}}
spec:
  url: "{url}/v1"
  credentials: {{file: "{key_file}"}}
  quota: {{concurrency: {narrow}, requestsPerMinute: 100000, tokensPerMinute: 10000000}}
  timeouts: {{connect: 1s, request: 15s, streamIdle: 20s}}
---
kind: Tier
metadata: {{name: soaked}}
spec:
  match: {{header: {{x-outrigger-tier: soaked}}}}
  limits: {{requestsPerMinute: 100000, tokensPerMinute: 100000000, concurrency: {places}}}
---
kind: Consumer
metadata: {{name: team}}
spec: {{tenant: team, limits: {{requestsPerMinute: 100000, tokensPerMinute: 100000000}}}}
---
kind: Policy
metadata: {{name: everyone}}
spec:
  target: {{models: ["*"]}}
  failOpen: true
  retry: {{attempts: 3, base: 50ms, max: 500ms, budget: 0.5}}
  hold: {{max: 8s}}
---
kind: Policy
metadata: {{name: embed}}
spec: {{target: {{models: [embed]}}, batch: {{mode: native, sendBelow: 2, maxWait: 30ms}}}}
---
kind: Policy
metadata: {{name: array}}
spec: {{target: {{models: [array]}}, batch: {{mode: array, sendBelow: 2, maxWait: 30ms}}}}
---
kind: Policy
metadata: {{name: session}}
spec: {{target: {{models: [session]}}, session: {{enabled: true, turns: {turns}}}}}
---
kind: Policy
metadata: {{name: cached}}
spec:
  target: {{models: [cached]}}
  cache: {{enabled: true, ttl: 5m, memoryEntries: 200, tiers: [memory, redis, database]}}
---
kind: Policy
metadata: {{name: crowd}}
spec: {{target: {{models: [crowd]}}, coalesce: {{enabled: true}}, cache: {{enabled: false}}}}
"""


def documents(url: str, key_file: str) -> str:
    """Return the policy; `url` is the provider's, `key_file` holds the key that it is sent."""
    models = [
        f"kind: Model\nmetadata: {{name: {name}}}\n"
        f"spec: {{versions: [{{name: v1, backend: {'bounded' if name == 'narrow' else 'sim'}}}]}}\n"
        for name in MODELS
    ]
    first = _DOCUMENTS.format(url=url, key_file=key_file, places=PLACES, narrow=NARROW, turns=TURNS)
    return "---\n".join((first, *models))


def changes() -> list[tuple[str, dict[str, Any]]]:
    """Return changes that no answer may show, as paths below /api/v1 and documents, to be put in order.

    The last ones put back what the first ones changed.
    """

    def document(kind: str, name: str, spec: dict[str, Any]) -> dict[str, Any]:
        return {
            "apiVersion": "outrigger.dev/v1alpha1",
            "kind": kind,
            "metadata": {"name": name},
            "spec": spec,
        }

    def policy(name: str, **spec: Any) -> tuple[str, dict[str, Any]]:
        return f"policies/{name}", document("Policy", name, {"target": {"models": [name]}, **spec})

    def cache(ttl: str, tiers: list[str]) -> tuple[str, dict[str, Any]]:
        spec = {"enabled": True, "ttl": ttl, "memoryEntries": 200, "tiers": tiers}
        return policy("cached", cache=spec)

    two = [{"name": "v1", "backend": "sim", "weight": 50}, {"name": "v2", "backend": "sim", "weight": 50}]
    one = [{"name": "v1", "backend": "sim"}]
    return [
        cache("1m", ["memory"]),
        policy("embed", batch={"mode": "none"}),
        ("models/plain", document("Model", "plain", {"versions": two})),
        policy("crowd", coalesce={"enabled": False}),
        policy("embed", batch={"mode": "native", "sendBelow": 1, "maxWait": "10ms"}),
        policy("plain", parameters={"maxTokens": {"max": 4000}}),
        cache("5m", ["memory", "redis", "database"]),
        policy("crowd", coalesce={"enabled": True}),
        ("models/plain", document("Model", "plain", {"versions": one})),
        policy("embed", batch={"mode": "native", "sendBelow": 2, "maxWait": "30ms"}),
    ]
