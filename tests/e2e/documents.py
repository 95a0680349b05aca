"""The documents of the meshes under test."""

from __future__ import annotations

PROVIDER_KEY = "sk-marker-9f3b1c7e5a2d4860marker"

# Backends that tests make ill get clusters of their own, so that an ejection disturbs nobody else.
SHARED_MESH = """\
kind: Backend
metadata: {{name: rude}}
spec: {{url: "http://127.0.0.1:{rude}/v1", default: true}}
---
kind: Backend
metadata: {{name: flaky}}
spec: {{url: "http://127.0.0.1:{rude}/v1", timeouts: {{connect: 1s, request: 4s}}}}
---
kind: Backend
metadata: {{name: resting}}
spec: {{url: "http://127.0.0.1:{rude}/v1"}}
---
kind: Backend
metadata: {{name: tired}}
spec: {{url: "http://127.0.0.1:{rude}/v1"}}
---
kind: Backend
metadata: {{name: impatient}}
spec: {{url: "http://127.0.0.1:{rude}/v1", timeouts: {{request: 1s, streamIdle: 1s}}}}
---
kind: Backend
metadata: {{name: keyed}}
spec:
  url: "http://127.0.0.1:{rude}/base/path"
  credentials: {{env: E2E_PROVIDER_KEY}}
---
kind: Backend
metadata: {{name: azure}}
spec:
  url: "http://127.0.0.1:{rude}"
  protocol: azure-openai
  apiVersion: "2024-10-21"
  credentials: {{env: E2E_PROVIDER_KEY}}
---
kind: Backend
metadata: {{name: gone}}
spec: {{url: "http://127.0.0.1:{dead}/v1", timeouts: {{connect: 1s}}}}
---
kind: Backend
metadata: {{name: narrow}}
spec: {{url: "http://127.0.0.1:{rude}/v1", quota: {{concurrency: 2}}}}
---
kind: Backend
metadata: {{name: simulated}}
spec: {{url: "http://127.0.0.1:{simulated}/v1"}}
---
kind: Model
metadata: {{name: plain}}
spec: {{aliases: [plain-alias], versions: [{{name: v1, backend: rude}}]}}
---
kind: Model
metadata: {{name: org/chat}}
spec: {{versions: [{{name: v1, backend: simulated}}]}}
---
kind: Model
metadata: {{name: cached}}
spec: {{aliases: [cached-alias], versions: [{{name: v1, backend: rude}}]}}
---
kind: Model
metadata: {{name: coalesced}}
spec: {{versions: [{{name: v1, backend: rude}}]}}
---
kind: Model
metadata: {{name: coalesced-and-cached}}
spec: {{versions: [{{name: v1, backend: rude}}]}}
---
kind: Policy
metadata: {{name: coalesced}}
spec: {{target: {{models: [coalesced, coalesced-and-cached]}}, coalesce: {{enabled: true}}}}
---
kind: Policy
metadata: {{name: coalesced-and-cached}}
spec: {{target: {{models: [coalesced-and-cached]}}, cache: {{enabled: true}}}}
---
kind: Model
metadata: {{name: paced}}
spec: {{versions: [{{name: v1, backend: rude}}]}}
---
kind: Policy
metadata: {{name: paced}}
spec: {{target: {{models: [paced]}}, cache: {{enabled: true, streamPace: 100ms}}}}
---
kind: Model
metadata: {{name: cached-flaky}}
spec: {{versions: [{{name: v1, backend: flaky}}]}}
---
kind: Model
metadata: {{name: cached-renamed}}
spec:
  versions: [{{name: v1, backend: rude, upstreamModel: "模型-längst-ünïcode-0123456789-0123456789"}}]
---
kind: Model
metadata: {{name: a-name-much-longer-than-the-one-the-provider-knows-0123456789}}
spec: {{versions: [{{name: v1, backend: rude, upstreamModel: m}}]}}
---
kind: Model
metadata: {{name: flaky}}
spec: {{versions: [{{name: v1, backend: flaky, upstreamModel: flaky-upstream}}]}}
---
kind: Model
metadata: {{name: hedged}}
spec: {{versions: [{{name: v1, backend: flaky}}]}}
---
kind: Policy
metadata: {{name: hedged}}
spec: {{target: {{models: [hedged]}}, retry: {{hedgeAfter: 300ms}}}}
---
kind: Model
metadata: {{name: once}}
spec: {{versions: [{{name: v1, backend: flaky}}]}}
---
kind: Model
metadata: {{name: twice}}
spec: {{versions: [{{name: v1, backend: tired}}]}}
---
kind: Model
metadata: {{name: resting}}
spec: {{versions: [{{name: v1, backend: resting}}]}}
---
kind: Model
metadata: {{name: impatient}}
spec: {{versions: [{{name: v1, backend: impatient}}]}}
---
kind: Model
metadata: {{name: keyed}}
spec: {{versions: [{{name: v1, backend: keyed}}]}}
---
kind: Model
metadata: {{name: azure}}
spec: {{versions: [{{name: v1, backend: azure, upstreamModel: my-deployment}}]}}
---
kind: Model
metadata: {{name: gone}}
spec: {{versions: [{{name: v1, backend: gone}}]}}
---
kind: Model
metadata: {{name: narrow}}
spec: {{versions: [{{name: v1, backend: narrow}}]}}
---
kind: Model
metadata: {{name: split}}
spec:
  versions:
    - {{name: left, backend: rude, upstreamModel: left, weight: 75}}
    - {{name: right, backend: rude, upstreamModel: right, weight: 25}}
---
kind: Model
metadata: {{name: degraded}}
spec:
  versions: [{{name: v1, backend: rude}}]
  degrade: [{{userAgent: "*Mobile*", model: plain}}]
---
kind: Model
metadata: {{name: clamped}}
spec: {{versions: [{{name: v1, backend: rude}}]}}
---
kind: Model
metadata: {{name: strict}}
spec: {{versions: [{{name: v1, backend: rude}}]}}
---
kind: Model
metadata: {{name: chat}}
spec: {{versions: [{{name: v1, backend: simulated}}]}}
---
kind: Model
metadata: {{name: embed}}
spec: {{versions: [{{name: v1, backend: simulated}}]}}
---
kind: Tier
metadata: {{name: gold}}
spec: {{match: {{header: {{x-outrigger-tier: gold}}}}, limits: {{}}}}
---
kind: Policy
metadata: {{name: everyone}}
spec: {{retry: {{base: 50ms, max: 300ms}}, hold: {{max: 3s}}}}
---
kind: Policy
metadata: {{name: cached}}
spec: {{target: {{models: ["cached*"]}}, cache: {{enabled: true}}}}
---
kind: Policy
metadata: {{name: once}}
spec: {{target: {{models: [once, cached-flaky]}}, retry: {{attempts: 1}}}}
---
kind: Policy
metadata: {{name: twice}}
spec: {{target: {{models: [twice]}}, retry: {{attempts: 2}}}}
---
kind: Policy
metadata: {{name: clamped}}
spec:
  target: {{models: [clamped]}}
  parameters: {{temperature: {{max: 0.3}}, maxTokens: {{max: 100}}}}
---
kind: Model
metadata: {{name: revalidated}}
spec: {{versions: [{{name: v1, backend: rude}}]}}
---
kind: Model
metadata: {{name: rescued}}
spec: {{versions: [{{name: v1, backend: flaky}}]}}
---
kind: Policy
metadata: {{name: revalidated}}
spec:
  target: {{models: [revalidated]}}
  cache: {{enabled: true, ttl: 300ms, staleWhileRevalidate: 1m}}
---
kind: Policy
metadata: {{name: rescued}}
spec:
  target: {{models: [rescued]}}
  cache: {{enabled: true, ttl: 300ms, staleIfError: 1m}}
  coalesce: {{enabled: true}}
  retry: {{attempts: 1}}
---
kind: Model
metadata: {{name: batched}}
spec: {{versions: [{{name: v1, backend: flaky, upstreamModel: upstream-batched}}]}}
---
kind: Model
metadata: {{name: batched-chat}}
spec: {{versions: [{{name: v1, backend: flaky}}]}}
---
kind: Model
metadata: {{name: packed}}
spec: {{versions: [{{name: v1, backend: flaky}}]}}
---
kind: Policy
metadata: {{name: batched}}
spec:
  target: {{models: [batched]}}
  batch: {{mode: native, sendBelow: 1, maxWait: 300ms, splitAbove: 20}}
  retry: {{attempts: 1}}
---
kind: Policy
metadata: {{name: batched-chat}}
spec:
  target: {{models: [batched-chat]}}
  batch: {{mode: array, sendBelow: 1, maxWait: 300ms}}
  cache: {{enabled: true}}
  retry: {{attempts: 1}}
---
kind: Policy
metadata: {{name: packed}}
spec:
  target: {{models: [packed]}}
  batch: {{mode: packed, sendBelow: 1, maxWait: 300ms}}
  retry: {{attempts: 1}}
---
kind: Policy
metadata: {{name: refused-names}}
spec: {{target: {{models: ["refuse-*"]}}, unknownModels: refuse}}
"""

# What a test of failures needs: one Backend, one Model, one cached Model.
SMALL_MESH = """\
kind: Backend
metadata: {{name: rude}}
spec: {{url: "http://127.0.0.1:{rude}/v1", default: true}}
---
kind: Model
metadata: {{name: plain}}
spec: {{versions: [{{name: v1, backend: rude, upstreamModel: renamed-upstream}}]}}
---
kind: Model
metadata: {{name: cached}}
spec: {{versions: [{{name: v1, backend: rude}}]}}
---
kind: Policy
metadata: {{name: open-or-not}}
spec: {{failOpen: {fail_open}}}
---
kind: Policy
metadata: {{name: cached}}
spec: {{target: {{models: [cached]}}, cache: {{enabled: true}}}}
"""
