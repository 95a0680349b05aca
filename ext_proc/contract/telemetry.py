"""What the processor tells the agent about an exchange, through Envoy's dynamic metadata and access log.

The processor writes a struct under `NAMESPACE`; Envoy copies it into the access-log entry that it streams
to the agent; the agent counts. So each request is counted once, even when the processor died under it.
Envoy writes the response headers that say what became of a request from it, too.
"""

from __future__ import annotations

from typing import Final

NAMESPACE: Final = "outrigger"

MODEL: Final = "model"  # the Model's name; absent when no Model is configured by that name
SHOWN_MODEL: Final = "shown_model"  # what x-outrigger-model says: MODEL, or the name that was asked for
VERSION: Final = "version"
RELEASE: Final = "release"  # the Release that chose the version; absent without one
ASSIGNED: Final = "assigned"  # with a Release: the version that it chose, whoever answered in the end
CLAMPED: Final = "clamped"  # the request's parameters that a Policy changed; absent when it changed none
BACKEND: Final = "backend"  # where it was sent first
KEY: Final = "key"  # a digest of the caller's own key, of calls to a Backend that has none; else absent
OPERATION: Final = "operation"  # chat | text_completion | embeddings (OTel gen_ai.operation.name)
CACHE: Final = "cache"  # hit | miss | bypass | coalesced
TIER: Final = "tier"  # the Tier's name; absent without one
STREAM: Final = "stream"  # true when the caller asked for a stream
INPUT_TOKENS: Final = "input_tokens"
OUTPUT_TOKENS: Final = "output_tokens"
FILTERED: Final = "filtered"  # 1 for an answer that a filter cut short or the model refused, if it was read
ESTIMATED: Final = "estimated"  # true when the token numbers are an estimate
