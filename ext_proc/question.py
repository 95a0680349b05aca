"""What a request asks, as a key: whose requests are the same question, and of which version of a Model.

Cache and coalescing must agree on it: an answer crosses to another caller only under an equal key.
"""

from __future__ import annotations

from ext_proc.contract import headers as names
from ext_proc.contract.snapshot import Backend, Version
from ext_proc.exchange import Exchange
from ext_proc.openai.requests import cache_key


def question_key(exchange: Exchange) -> bytes:
    """Return the identity of the exchange's answer: 32 bytes. Valid once the version is assigned."""
    return cache_key(
        partition(exchange), _identity(exchange, exchange.version, exchange.backend), exchange.parsed
    )


def other_question_key(exchange: Exchange, version: Version, backend: Backend) -> bytes:
    """Return the identity of the answer that another version of the exchange's Model would give."""
    return cache_key(partition(exchange), _identity(exchange, version, backend), exchange.parsed)


def is_shareable(exchange: Exchange) -> bool:
    """Whether the Policy lets an answer to this request be given to another one: not to a hot one."""
    temperature = exchange.parsed.document.get("temperature")
    limit = exchange.policy.cache.max_temperature
    return not (isinstance(temperature, int | float) and temperature > limit)


def directives(exchange: Exchange) -> frozenset[str]:
    """Return what the caller wishes by `x-outrigger-cache`, in lower case."""
    # Sent twice, a header is a list (RFC 9110, 5.3): each wish in it counts.
    value = exchange.head.headers.get(names.CACHE)
    return frozenset(wish.strip().lower() for wish in value.split(",")) if value else frozenset()


def partition(exchange: Exchange) -> str:
    """Return whose questions share answers with the exchange's, as the Policy's `cache.scope` says."""
    policy = exchange.policy.cache
    if policy.scope == "global":
        return "global"
    if policy.scope == "consumer" and exchange.consumer is not None:
        return f"consumer:{exchange.consumer.name}"
    return exchange.tenant


def _identity(exchange: Exchange, version: Version | None, backend: Backend | None) -> str:
    """What gave the answer: a version that is made again with another target is another one.

    The query goes up as it came, and some providers take a key or a version of their API from it.
    """
    where = f"{backend.name}\0{backend.url}\0{exchange.head.query}" if backend is not None else ""
    if exchange.model is None or version is None:
        return f"?\0{exchange.asked_model}\0{where}"
    return f"{exchange.model.name}\0{version.name}\0{version.upstream_model}\0{where}"
