"""An eager crowd before a provider, in virtual time, through the stage that holds calls."""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

import orjson

from ext_proc.contract.policies import RetryPolicy
from ext_proc.contract.snapshot import Backend, Model, PolicyLayer, Quota, Snapshot, Version
from ext_proc.exchange import Answer, Answered, Exchange, Forward, RequestHead, ResponseHead
from ext_proc.limits.estimates import Estimates
from ext_proc.openai.paths import classify
from ext_proc.openai.requests import parse_request
from ext_proc.openai.responses import parse_completion
from ext_proc.providers.cooling import Cooling
from ext_proc.providers.hints import read_hint
from ext_proc.providers.pacing import Spread
from ext_proc.providers.quota import MemoryQuotas
from ext_proc.providers.watch import Nobody, Watch
from ext_proc.snapshots import Loaded
from ext_proc.stages.hold import Hold, Quotas

BODY: Final = orjson.dumps({"model": "m", "messages": [{"role": "user", "content": "a word " * 3}]})
MINUTE_S: Final = 60.0


class Provider:
    """Counts what has come within a minute; refuses more than its quota, or everything while it is down."""

    def __init__(
        self,
        clock: Callable[[], float],
        quota: Quota,
        *,
        latency_s: float = 0.5,
        tokens: int = 25,
        down: tuple[float, float] = (0.0, 0.0),
    ) -> None:
        self._clock = clock
        self._quota = quota
        self._latency_s = latency_s
        self.tokens = tokens
        self._down = down
        self._recent: deque[float] = deque()
        self.served: list[float] = []
        self.refused = 0
        self.calls = 0

    async def call(self) -> tuple[int, bytes]:
        """Answer one call."""
        self.calls += 1
        now = self._clock()
        if self._down[0] <= now < self._down[1]:
            await asyncio.sleep(0.01)
            return 503, b""
        while self._recent and self._recent[0] + MINUTE_S <= now:
            self._recent.popleft()
        used = len(self._recent)
        requests, tokens = self._quota.requests_per_minute, self._quota.tokens_per_minute
        if (requests and used >= requests) or (tokens and (used + 1) * self.tokens > tokens):
            self.refused += 1
            await asyncio.sleep(0.01)
            return 429, b""
        self._recent.append(now)
        self.served.append(now)
        await asyncio.sleep(self._latency_s * random.Random(self.calls).uniform(0.5, 1.5))
        usage = {"prompt_tokens": 12, "completion_tokens": self.tokens - 12, "total_tokens": self.tokens}
        choice = {"index": 0, "message": {"content": "x"}, "finish_reason": "stop"}
        return 200, orjson.dumps({"choices": [choice], "usage": usage})


@dataclass(slots=True)
class Seen:
    """What the clients saw, and when."""

    asked: int = 0
    statuses: dict[int, int] = field(default_factory=dict)
    answered_at: list[float] = field(default_factory=list)


class Sidecar:
    """One processor's stage before the provider."""

    def __init__(self, loaded: Loaded, clock: Callable[[], float], quotas: Quotas | None = None) -> None:
        self._loaded = loaded
        self.watch = Watch(Cooling(random.Random(1).random), Spread(), Nobody(), clock, clock)
        self.hold = Hold(
            self.watch,
            quotas if quotas is not None else MemoryQuotas(lambda: int(clock() * 1e6)),
            Estimates(),
            clock,
        )
        self._clock = clock

    async def call(self, provider: Provider, seen: Seen) -> int:
        """Make one call as a client does; return its status."""
        exchange = self._opened()
        seen.asked += 1
        answer = await self.hold.on_request(exchange)
        if isinstance(answer, Answer):
            self.hold.on_end(exchange)
            status = answer.status
        else:
            exchange.forwarded = Forward("route")
            status, body = await provider.call()
            exchange.response = ResponseHead(status, {})
            hint = read_hint(status, {}, self._clock())
            self.watch.observe("b", status, hint, RetryPolicy())
            self.hold.on_response_head(exchange)
            if status == 200:
                completion = parse_completion(exchange.parsed.operation, body)
                self.hold.on_response(exchange, Answered(exchange.response, body, completion))
                seen.answered_at.append(self._clock())
            self.hold.on_end(exchange)
        seen.statuses[status] = seen.statuses.get(status, 0) + 1
        return status

    def _opened(self) -> Exchange:
        head = RequestHead("POST", "/v1/chat/completions", "", {})
        exchange = Exchange(head, self._loaded, classify(head.method, head.path))
        exchange.body = BODY
        exchange.request = parse_request(exchange.classified.operation, BODY, "application/json", None)
        exchange.asked_model = "m"
        exchange.model = self._loaded.snapshot.models["m"]
        exchange.version = exchange.model.versions[0]
        exchange.backend = self._loaded.snapshot.backends["b"]
        exchange.policy = self._loaded.policy("m", "")
        return exchange


def policy(quota: Quota, hold_ms: int = 10_000) -> Loaded:
    """Return a policy with one Backend."""
    return Loaded(
        Snapshot(
            "r1-crowd",
            backends={"b": Backend("b", "http://127.0.0.1:1/v1", quota=quota)},
            models={"m": Model("m", (Version("v1", "b", "m"),))},
            policies=(PolicyLayer("p", settings={"hold.max_ms": hold_ms}),),
        )
    )


async def crowd(sidecars: Sequence[Sidecar], provider: Provider, clients: int, seconds: float) -> Seen:
    """Let so many clients call again and again, as soon as they are answered, for a time."""
    loop, seen = asyncio.get_running_loop(), Seen()
    ends_at = loop.time() + seconds

    async def client(number: int) -> None:
        await asyncio.sleep(number / 1000)
        while loop.time() < ends_at:
            if await sidecars[number % len(sidecars)].call(provider, seen) != 200:
                await asyncio.sleep(0.1)

    await asyncio.gather(*(client(number) for number in range(clients)))
    return seen
