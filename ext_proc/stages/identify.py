"""Who is calling: the Consumer, the tenant, the tier.

A Consumer key (`ork_…`) never leaves the mesh. Any other credential passes, and is a partition of its own.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from functools import lru_cache

from ext_proc.contract.headers import ACCOUNT, CONSUMER_KEY_PREFIX, CREDENTIALS
from ext_proc.contract.keys import key_digest
from ext_proc.contract.snapshot import Consumer, Snapshot
from ext_proc.exchange import Answer, Exchange, Forward, Reason
from ext_proc.openai.errors import ErrorCode
from ext_proc.openai.paths import Operation
from ext_proc.pipeline import PassingStage
from ext_proc.providers.scopes import KEY_TENANT
from ext_proc.refusals import refuse, require_consumer

_BEARER = re.compile(r"\s*bearer\s+(.*?)\s*", re.IGNORECASE | re.DOTALL)
# Envoy's HTTP/1 codec joins doubled authorization headers by a comma before anybody sees that they were two.
# A scheme like Digest has commas of its own; what follows those is no credential.
_JOINED = re.compile(rf",\s*(?:(?:bearer|basic)\s|{CONSUMER_KEY_PREFIX})", re.IGNORECASE)
_IDENTITY_HEADERS = frozenset(CREDENTIALS)


class Identify(PassingStage):
    """Fills in `consumer`, `tenant` and `tier` from the request's headers.

    Args:
        now: the wall clock, in seconds since the epoch; keys expire by it.
    """

    name = "identify"
    reasons = frozenset((Reason.CONSUMER_REQUIRED, Reason.DOUBLED_IDENTITY, Reason.UNKNOWN_KEY))

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now

    async def on_head(self, exchange: Exchange) -> Answer | Forward | None:
        """Refuse doubled identity headers and unknown Consumer keys; say who is calling otherwise."""
        head, loaded = exchange.head, exchange.loaded
        snapshot = loaded.snapshot
        joined = _JOINED.search(head.headers.get("authorization", ""))
        if joined or not _IDENTITY_HEADERS.isdisjoint(head.doubled):
            return refuse(
                400, Reason.DOUBLED_IDENTITY, "Send one authorization header only.", code="doubled_header"
            )
        key = presented_key(head.headers)
        if key.startswith(CONSUMER_KEY_PREFIX):
            consumer = self._consumer(snapshot, key)
            if consumer is None:
                return refuse(
                    401,
                    Reason.UNKNOWN_KEY,
                    "This key is not valid. Ask your platform team for a Consumer key.",
                    code=ErrorCode.INVALID_API_KEY,
                )
            exchange.consumer = consumer
            exchange.tenant = f"tenant:{consumer.tenant}"
            exchange.tier = consumer.tier or ""
        else:
            account = [value for name in ACCOUNT if (value := head.headers.get(name))]
            if key or account:
                exchange.tenant = f"{KEY_TENANT}{_sha256(chr(0).join((key, *account)))}"
            else:
                exchange.tenant = f"workload:{snapshot.workload}"
        if not exchange.tier and loaded.tiers:
            exchange.tier = _tier_of(exchange)
        if exchange.classified.operation is Operation.OTHER:
            # The path names no model, so the Policy for the nameless one decides.
            return require_consumer(exchange, "")
        return None

    def _consumer(self, snapshot: Snapshot, key: str) -> Consumer | None:
        known = snapshot.consumer_keys.get(_key_digest(key, snapshot.key_salt))
        if known is None or (known.expires_at_s is not None and self._now() >= known.expires_at_s):
            return None
        return snapshot.consumers.get(known.consumer)


def presented_key(headers: Mapping[str, str]) -> str:
    """Return the credential that the caller sent, without its scheme when that is Bearer; "" without one.

    A Consumer key counts in `api-key` too, where Azure's clients put theirs.
    """
    authorization = headers.get("authorization", "")
    bearer = _BEARER.fullmatch(authorization)
    key = bearer.group(1) if bearer else authorization.strip()
    api_key = headers.get("api-key", "").strip()
    if not key or api_key.startswith(CONSUMER_KEY_PREFIX):
        return api_key or key
    return f"{key}\0{api_key}" if api_key else key


_key_digest = lru_cache(maxsize=4096)(key_digest)


@lru_cache(maxsize=4096)
def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


def _tier_of(exchange: Exchange) -> str:
    headers = exchange.head.headers
    for tier in exchange.loaded.tiers:
        if all(headers.get(name) == value for name, value in tier.match_headers.items()):
            return tier.name
    return ""
