"""Exchanges for the tests of stages: a snapshot in, a decision out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any

import orjson
import structlog

from ext_proc.answers import Clocks
from ext_proc.continuation import CallFailed, Reply
from ext_proc.contract.snapshot import Backend, Model, Snapshot, Version
from ext_proc.exchange import Answer, Exchange, Forward, RequestHead
from ext_proc.flights import Flights
from ext_proc.openai.paths import PARSED, classify
from ext_proc.openai.requests import parse_request
from ext_proc.pipeline import Stage
from ext_proc.snapshots import Loaded
from ext_proc.stores.memory import MemoryStore
from ext_proc.tally import CacheTally
from ext_proc.tiers import Tiers
from ext_proc.wiring.caching import Caching
from ext_proc.wiring.stages import Sharing

CHAT = "/v1/chat/completions"


class Counted:
    """Decisions, as they were counted."""

    def __init__(self) -> None:
        self.pairs: list[tuple[str, str]] = []

    def decided(self, stage: str, reason: str) -> None:
        """Write it down."""
        self.pairs.append((stage, reason))

    def masked(self, entity: str, items: int) -> None:
        """Write it down once for each item."""
        self.pairs += [("masked", entity)] * items


HELLO: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}


def snapshot(**changes: Any) -> Snapshot:
    """Return a snapshot with one default Backend `b` and one Model `m`, changed as said."""
    backend = Backend("b", "http://127.0.0.1:1/v1")
    model = Model("m", (Version("v1", "b", "m"),))
    defaults: dict[str, Any] = {
        "version": "r1-test",
        "default_backend": "b",
        "backends": {"b": backend},
        "models": {"m": model},
    }
    return Snapshot(**{**defaults, **changes})


def head(
    headers: Mapping[str, str] | None = None, *, method: str = "POST", path: str = CHAT, query: str = ""
) -> RequestHead:
    """Return a request head; names in `headers` ending in `+` count as sent twice."""
    given = dict(headers or {})
    doubled = frozenset(name[:-1] for name in given if name.endswith("+"))
    plain = {name.removesuffix("+"): value for name, value in given.items()}
    return RequestHead(method, path, query, {"content-type": "application/json", **plain}, doubled)


def exchange(
    policy: Snapshot | None = None,
    document: Mapping[str, Any] | None = None,
    headers: Mapping[str, str] | None = None,
    **request_line: str,
) -> Exchange:
    """Return an exchange whose body (`document`, HELLO when None) has come and is parsed."""
    request_head = head(headers, **request_line)
    opened = Exchange(
        request_head, Loaded(policy or snapshot()), classify(request_head.method, request_head.path)
    )
    opened.body = orjson.dumps(dict(document or HELLO))
    opened.tenant = "workload:default"
    if opened.classified.operation in PARSED.values():
        opened.request = parse_request(opened.classified.operation, opened.body, "application/json", None)
    return opened


async def pass_through(stages: Sequence[Stage], opened: Exchange) -> Answer | Forward | None:
    """Take `opened` through the request hooks of `stages` until one decides."""
    for stage in stages:
        decision = await stage.on_request(opened)
        if decision is not None:
            return decision
    return None


class NoCaller:
    """Makes no calls."""

    def call(self, head: RequestHead, forward: Forward, body: bytes) -> AbstractAsyncContextManager[Reply]:
        """Fail at once."""
        raise CallFailed("there is nobody to call")


SHARING = Sharing(Flights(), NoCaller(), "outrigger_origin_0", structlog.get_logger())


def caching(entries: int = 100) -> Caching:
    """Return a cache of `entries` in memory, whose clock stands still, and of which nothing is void."""
    tiers = Tiers(MemoryStore(entries, 64_000_000, lambda: 0.0), {}, lambda: Clocks(0.0, 0.0))
    return Caching(tiers, CacheTally(), tuple)
