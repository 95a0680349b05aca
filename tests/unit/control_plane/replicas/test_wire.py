"""What replicas tell each other, as bytes."""

from __future__ import annotations

import json
import zlib
from datetime import UTC, datetime

import pytest

from control_plane.push.sidecars import Told
from control_plane.push.views import EnvoyState, SidecarView, TierStatistics, VersionStatistics
from control_plane.replicas.wire import totals_bytes, totals_of, views_bytes, views_of
from ext_proc.contract.cache import CacheStatistics
from ext_proc.contract.uses import Use

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
VERSION = VersionStatistics("m", "v", calls=3, duration={-2: 1, 7: 2})
VIEW = SidecarView(
    "s",
    "shop",
    connected=True,
    connected_at=NOON,
    labels={"zone": "a"},
    nack="no",
    envoy=EnvoyState.LIVE,
    cache=CacheStatistics(hits=2),
    replica="cp-0",
)


def test_sidecars_come_back_as_they_were() -> None:
    """But for what each counted, which is told as a sum."""
    counted = SidecarView("t", "shop", connected=False, connected_at=NOON, epoch="e", versions=(VERSION,))
    found = views_of(views_bytes((VIEW, counted)))
    assert found == (VIEW, SidecarView("t", "shop", connected=False, connected_at=NOON))
    assert views_of(b"") == ()


def test_sums_come_back_as_they_were() -> None:
    """Buckets below one, too."""
    tiers = (TierStatistics("gold", 1, 2, 3, 4),)
    total = Told(epoch="e", versions=(VERSION,), tiers=tiers, uses={"m": Use(1, 2)})
    assert totals_of(totals_bytes(total)).versions == (VERSION,)
    assert totals_of(totals_bytes(total)).tiers == total.tiers
    assert totals_of(totals_bytes(total)).uses == total.uses
    assert totals_of(b"") == Told()


def test_what_a_newer_build_adds_is_left_out_and_what_cannot_be_read_is_an_error() -> None:
    """Whatever it is."""
    plain = json.loads(zlib.decompress(views_bytes((VIEW,))))
    plain[0]["mood"] = "good"
    assert views_of(zlib.compress(json.dumps(plain).encode())) == (VIEW,)
    for content in (b"x", zlib.compress(b"{}"), zlib.compress(b"[{}]")):
        with pytest.raises(ValueError, match=r"."):
            views_of(content)
