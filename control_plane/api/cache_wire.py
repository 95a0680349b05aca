"""What is seen of caches, as it is answered (pure), and examples of it."""

from __future__ import annotations

from typing import Any, Final

import orjson

from control_plane.api.ports import Kept
from ext_proc.contract.cache import HIT_AGE_BOUNDS_S, CacheStatistics

SCOPE: Final = "the sidecars of this replica of the control plane"
"""Said with what is kept: sidecars that are connected to another replica are asked there."""
EVERYWHERE: Final = "the sidecars of all replicas of the control plane"
"""Said with what caches did."""


def statistics_wire(statistics: CacheStatistics) -> dict[str, Any]:
    """Return statistics as they are answered. A ratio is a share of all questions, null before the first."""
    asked = statistics.hits + statistics.misses
    bounds = (*HIT_AGE_BOUNDS_S, None)
    return {
        "hits": statistics.hits,
        "misses": statistics.misses,
        "hitRatio": _ratio(statistics.hits, asked),
        "tiers": [
            {
                "tier": tier.tier,
                "hits": tier.hits,
                "misses": tier.misses,
                "hitRatio": _ratio(tier.hits, asked),
                "entries": tier.entries,
                "bytes": tier.size_bytes,
            }
            for tier in statistics.tiers
        ],
        "saved": {
            "promptTokens": statistics.saved_prompt_tokens,
            "completionTokens": statistics.saved_completion_tokens,
            "cost": statistics.saved_cost_micros / 1_000_000,
            "seconds": statistics.saved_ms / 1_000,
        },
        "hitAges": [
            {"upToSeconds": bound, "hits": hits}
            for bound, hits in zip(bounds, statistics.hit_ages, strict=False)
        ],
        "semantic": statistics.semantic,
    }


def _ratio(part: int, whole: int) -> float | None:
    return min(round(part / whole, 4), 1.0) if whole else None


def entry_wire(kept: Kept) -> dict[str, Any]:
    """Return what may be shown of an answer that is kept."""
    entry = kept.entry
    return {
        "key": entry.key,
        "tier": entry.tier,
        "model": entry.model,
        "version": entry.version,
        "tenant": entry.tenant,
        "ageSeconds": round(entry.age_s, 3),
        "expiresInSeconds": round(entry.expires_s, 3),
        "stale": entry.fresh_s <= 0,
        "bytes": entry.size_bytes,
        "hits": entry.hits,
        "sidecars": kept.sidecars,
    }


def body_wire(body: bytes | None) -> Any:
    """Return a body as the JSON that it is, else as text; None when it was too large to be told."""
    if body is None:
        return None
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError:
        return body.decode("utf-8", "replace")


_KEY: Final = "9f2c" + "0" * 60
_STATISTICS: Final[dict[str, Any]] = {
    "hits": 40,
    "misses": 60,
    "hitRatio": 0.4,
    "tiers": [{"tier": "memory", "hits": 40, "misses": 60, "hitRatio": 0.4, "entries": 60, "bytes": 81920}],
    "saved": {"promptTokens": 2000, "completionTokens": 9000, "cost": 0.0057, "seconds": 61.2},
    "hitAges": [{"upToSeconds": 1.0, "hits": 30}, {"upToSeconds": 10.0, "hits": 10}],
    "semantic": {"served": 0, "explored": 0, "vetoed": 0, "wouldServe": 0, "wouldBeWrong": 0},
}
SHOWN: Final[dict[str, Any]] = {
    "scope": EVERYWHERE,
    "total": _STATISTICS,
    "sidecars": [{"sidecar": "shop-7d9f", "workload": "shop", "connected": True, **_STATISTICS}],
}
_ENTRY: Final[dict[str, Any]] = {
    "key": _KEY,
    "tier": "memory",
    "model": "gpt-4o-mini",
    "version": "stable",
    "tenant": "tenant:team-a",
    "ageSeconds": 12.5,
    "expiresInSeconds": 86387.5,
    "stale": False,
    "bytes": 812,
    "hits": 4,
    "sidecars": ["shop-7d9f"],
}
LISTED: Final[dict[str, Any]] = {"scope": SCOPE, "items": [_ENTRY], "unanswered": []}
READ: Final[dict[str, Any]] = {
    **_ENTRY,
    "contentType": "application/json",
    "body": {"object": "chat.completion", "choices": []},
}
PURGED: Final[dict[str, Any]] = {
    "revision": 14,
    "at": "2026-01-31T08:00:00.000000Z",
    "tenant": "tenant:team-a",
    "model": "gpt-4o-mini",
    "version": None,
    "keyPrefix": None,
}
