"""Timing the stages of a request: for whoever shows the control plane's proof (`contract/proofs.py`).

Nobody else's request has a stopwatch, so that looking at the clock costs nobody else anything.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import replace
from typing import Any, Final

from ext_proc.contract import headers as names
from ext_proc.contract.proofs import GOOD_FOR_S, proven
from ext_proc.exchange import Answer, Exchange, Forward
from ext_proc.stopwatch import Stopwatch

Hook = Callable[[Exchange], Coroutine[Any, Any, Answer | Forward | None]]
PASSED: Final = "passed"
FORWARDED: Final = "forwarded"
MAX_USED: Final = 1_000
"""Proofs that are remembered as used; while so many are good nobody else gets a stopwatch."""
_MAX_CHARS: Final = 120


class Stopwatches:
    """Gives requests that show a good proof a stopwatch.

    Args:
        clock_ns: monotonic.
        now: the time of day, in seconds since the epoch.
    """

    def __init__(self, clock_ns: Callable[[], int], now: Callable[[], float]) -> None:
        self._clock_ns = clock_ns
        self._now = now
        # By nonce: until when it may not be shown again.
        self._used: OrderedDict[str, float] = OrderedDict()

    def give(self, exchange: Exchange) -> None:
        """Give `exchange` one if its proof is good and was not used before; else leave it alone."""
        now_s = self._now()
        proof = exchange.head.headers.get(names.STAGES, "")
        nonce = proven(exchange.loaded.snapshot.key_salt, proof, now_s)
        while self._used and next(iter(self._used.values())) <= now_s:
            self._used.popitem(last=False)
        if not nonce or nonce in self._used or len(self._used) >= MAX_USED:
            return
        self._used[nonce] = now_s + 2 * GOOD_FOR_S
        exchange.stopwatch = Stopwatch(self._clock_ns)
        # So that the head of the answer comes by.
        exchange.wants_head = True


def timed(watch: Stopwatch, hooks: Iterable[tuple[str, Hook]]) -> list[tuple[str, Hook]]:
    """Return `hooks`, each timed and looked at."""
    return [(name, _timed(watch, name, hook)) for name, hook in hooks]


def told_on(answer: Answer, watch: Stopwatch) -> Answer:
    """Return an answer of our own with the header that tells the times."""
    return replace(answer, headers=(*answer.headers, *watch.told()))


def _timed(watch: Stopwatch, name: str, hook: Hook) -> Hook:
    async def looked_at(exchange: Exchange) -> Answer | Forward | None:
        before = _known(exchange)
        watch.begin()
        decision = await hook(exchange)
        forwards = isinstance(decision, Forward)
        did = decision.reason.value if isinstance(decision, Answer) else FORWARDED if forwards else PASSED
        news = {key: value for key, value in _known(exchange).items() if value != before[key]}
        watch.lap(name, did, news, leaves=forwards)
        return decision

    return looked_at


def _known(exchange: Exchange) -> dict[str, str]:
    """Return what stages fill in, as texts; "" for what none has."""
    parts = {
        "consumer": exchange.consumer.name if exchange.consumer is not None else "",
        "tier": exchange.tier,
        "model": exchange.model_name,
        "version": exchange.version_name,
        "release": exchange.release,
        "backend": exchange.backend.name if exchange.backend is not None else "",
        "fallbacks": str(max(len(exchange.candidates) - 1, 0) or ""),
        "clamped": exchange.clamped,
        "session": "yes" if exchange.session_key is not None else "",
        "masked": "yes" if exchange.masks is not None else "",
        "cache": exchange.cache_status.value,
        "leads": "yes" if exchange.flight else "",
        "limited": "yes" if exchange.metered is not None else "",
        "waited": "yes" if exchange.parked else "",
    }
    return {key: value[:_MAX_CHARS] for key, value in parts.items()}
