"""How many wrong tokens one source may show: a bucket per address that refills with time (pure)."""

from __future__ import annotations

import ipaddress
import math
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

MAX_SOURCES: Final = 10_000


@dataclass(slots=True)
class _Bucket:
    left: float
    at_s: float


class Throttle:
    """Counts failures by source address.

    Args:
        clock: a monotonic clock, in seconds.
        burst: how many failures a source has at once.
        per_s: how many it gets back each second.
    """

    def __init__(self, clock: Callable[[], float], *, burst: int = 100, per_s: float = 0.5) -> None:
        self._clock = clock
        self._burst = float(burst)
        self._per_s = per_s
        self._buckets: OrderedDict[str, _Bucket] = OrderedDict()

    def take(self, source: str) -> int | None:
        """Take one try from `source`; return None, or after how many whole seconds it has one again."""
        bucket = self._bucket(_network(source))
        if bucket.left < 1:
            return max(1, math.ceil((1 - bucket.left) / self._per_s))
        bucket.left -= 1
        return None

    def give_back(self, source: str) -> None:
        """Undo one `take`: the try was no failure."""
        bucket = self._bucket(_network(source))
        bucket.left = min(self._burst, bucket.left + 1)

    def _bucket(self, key: str) -> _Bucket:
        now = self._clock()
        bucket = self._buckets.setdefault(key, _Bucket(self._burst, now))
        self._buckets.move_to_end(key)
        bucket.left = min(self._burst, bucket.left + max(0.0, now - bucket.at_s) * self._per_s)
        bucket.at_s = now
        if len(self._buckets) > MAX_SOURCES:
            self._buckets.popitem(last=False)
        return bucket


def _network(source: str) -> str:
    """Return what counts as one source: an address, or the /64 of an IPv6 address, as one host has it all."""
    try:
        address = ipaddress.ip_address(source)
    except ValueError:
        return source
    if address.version == 4:
        return source
    return str(ipaddress.ip_network((address, 64), strict=False))
