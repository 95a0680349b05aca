"""The names of the headers we read and write, each once, lower-case."""

from __future__ import annotations

from typing import Final

PREFIX: Final = "x-outrigger-"

# In, from the application. Any other inbound x-outrigger-* is stripped by Envoy.
TIER: Final = "x-outrigger-tier"
SESSION: Final = "x-outrigger-session"
CACHE: Final = "x-outrigger-cache"  # out too
# From the control plane's playground, with a proof; anybody else's means nothing. Out too, to that call.
STAGES: Final = "x-outrigger-stages"
INBOUND: Final = (TIER, SESSION, CACHE, STAGES)

# Out, to the application.
MODEL: Final = "x-outrigger-model"
VERSION: Final = "x-outrigger-version"
BACKEND: Final = "x-outrigger-backend"
BATCH: Final = "x-outrigger-batch"
CLAMPED: Final = "x-outrigger-clamped"
ATTEMPTS: Final = "x-outrigger-attempts"
ERROR: Final = "x-outrigger-error"
REQUEST_ID: Final = "x-request-id"

# Inside only, from the processor to Envoy's route table.
ROUTE: Final = "x-outrigger-route"
ORIGIN: Final = "x-outrigger-origin"  # the cluster of the processor that has a flight's stream
FLIGHT: Final = "x-outrigger-flight"  # which flight

KEY: Final = "x-outrigger-key"  # with a call of its own: a digest of the key that it is made with

# Inside only, from the filters of an attempt to Envoy's router, on an error; `KEY` for its log.
RETRY: Final = "x-outrigger-retry"  # `1`, to be tried again, or `0`
WAIT: Final = "x-outrigger-wait"  # whole seconds before the next attempt

# Where a caller puts its key: OpenAI's header, and Azure's.
CREDENTIALS: Final = ("authorization", "api-key")
CONSUMER_KEY_PREFIX: Final = "ork_"
# What a provider may choose its answer by, beside the key itself; some take their key from one of the last.
ACCOUNT: Final = ("openai-organization", "openai-project", "x-api-key", "x-goog-api-key")
