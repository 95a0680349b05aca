"""Where the request goes: the Envoy route, the path, the body as the provider should see it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final
from urllib.parse import quote, urlsplit

import orjson

from ext_proc.candidates import Candidate
from ext_proc.contract import telemetry
from ext_proc.contract.endpoint import endpoint_of
from ext_proc.contract.headers import CREDENTIALS
from ext_proc.contract.plans import Plan, StandIn
from ext_proc.contract.routes import CallShape, cluster_name
from ext_proc.contract.snapshot import Backend
from ext_proc.exchange import Answer, Exchange, Forward, Metadata, Reason, describe
from ext_proc.openai.paths import Operation
from ext_proc.openai.requests import encode
from ext_proc.pipeline import PassingStage
from ext_proc.providers.scopes import key_of
from ext_proc.refusals import no_backend

HEDGED_AT_MOST_BYTES: Final = 16 * 1024
"""A larger call is not sent twice for being slow."""


_LIKE_OUR_FIELD: Final = (b"stream_options", b"\\u00")


class Route(PassingStage):
    """The last stage: always decides.

    `refuses_usage`: whether a Backend must not be asked for a stream's usage.
    """

    name = "route"
    reasons = frozenset((Reason.NO_BACKEND,))

    def __init__(self, refuses_usage: Callable[[Backend], bool] = lambda backend: False) -> None:
        self._refuses_usage = refuses_usage

    async def on_head(self, exchange: Exchange) -> Answer | Forward | None:
        """Send paths that are not ours to the default Backend, their bodies untouched and unread."""
        if exchange.classified.operation not in (Operation.OTHER, Operation.MODELS, Operation.MODEL):
            return None
        backend = exchange.loaded.default_backend
        if backend is None:
            return no_backend()
        exchange.backend = backend
        policy = exchange.loaded.policy("", exchange.tier)
        return Forward(
            exchange.loaded.route(backend, policy, CallShape.RAW),
            remove=_own_key(exchange),
            metadata=_described(exchange, backend),
            wants_response=exchange.wants_head,
        )

    async def on_request(self, exchange: Exchange) -> Answer | Forward | None:
        """Send a parsed request to its Backend; its body is written anew only if a stage changed it."""
        backend, request = exchange.backend, exchange.parsed
        if backend is None:
            return no_backend()
        version = exchange.version
        if version is not None and request.document["model"] != version.upstream_model:
            request.document["model"] = version.upstream_model
            exchange.changed = True
        asks = False
        if exchange.wants_stream and not self._refuses_usage(backend):
            # Only what no word of the caller's can be: a provider may repeat these in a refusal.
            asks = not any(said in exchange.body for said in _LIKE_OUR_FIELD)
            if ask_for_usage(request.document):
                exchange.hides_usage = exchange.changed = True
        stand_ins = len(exchange.candidates) - 1 if exchange.candidates else 0
        shape = CallShape.STREAM if request.stream else CallShape.JSON
        if exchange.policy.retry.hedge_after_ms is not None and shape is CallShape.JSON and not stand_ins:
            shape = CallShape.HEDGED if len(exchange.body) <= HEDGED_AT_MOST_BYTES else shape
        path = None
        if backend.protocol == "azure-openai":
            path = azure_path(backend, exchange.head.path, exchange.head.query, request.document["model"])
        return Forward(
            exchange.loaded.route(backend, exchange.policy, shape, stand_ins),
            path=path,
            body=encode(request.document) if exchange.changed else None,
            remove=_own_key(exchange),
            metadata=_described(exchange, backend, asks=asks),
            wants_response=exchange.wants_head or exchange.wants_body or exchange.wants_stream,
            plan=plan_of(exchange) if stand_ins else None,
        )


def _described(exchange: Exchange, backend: Backend, *, asks: bool = False) -> Metadata:
    """Say whose key it is, too, where that matters: each attempt's log then tells whom a refusal concerns.

    `asks`: for a usage, in a field that the caller has not written. An attempt may take it out again.
    """
    key = key_of(backend, exchange.tenant)
    told = (*describe(exchange), (telemetry.KEY, key)) if key else describe(exchange)
    return (*told, (telemetry.ASKS_USAGE, True)) if asks else told


def plan_of(exchange: Exchange) -> Plan:
    """Return who answers: the first candidate, tried as often as the Policy says, then each other one."""
    first, *others = exchange.candidates
    return Plan(
        cluster_name(first.backend),
        max(1, exchange.policy.retry.attempts),
        tuple(_stand_in(exchange, other) for other in others),
    )


def _stand_in(exchange: Exchange, candidate: Candidate) -> StandIn:
    backend, head = candidate.backend, exchange.head
    sent, name = exchange.parsed.document["model"], sent_as(exchange, candidate)
    if backend.protocol == "azure-openai":
        path = azure_path(backend, head.path, head.query, name)
    else:
        path = endpoint_of(backend).base_path + head.path.removeprefix("/v1")
        path = f"{path}?{head.query}" if head.query else path
    told = [(telemetry.BACKEND, backend.name)]
    if candidate.model is not None:
        told += [(telemetry.MODEL, candidate.model.name), (telemetry.SHOWN_MODEL, candidate.model.name)]
    if candidate.version is not None:
        told.append((telemetry.VERSION, candidate.version.name))
    return StandIn(
        cluster_name(backend),
        endpoint_of(backend).authority,
        path,
        None if name == sent else orjson.dumps(name).decode(),
        tuple(told),
    )


def sent_as(exchange: Exchange, candidate: Candidate) -> str:
    """Return the model's name as `candidate` knows it."""
    return candidate.version.upstream_model if candidate.version is not None else exchange.asked_model


def ask_for_usage(document: dict[str, Any]) -> bool:
    """Ask for the usage of a stream; False when the caller did already, or wrote what we cannot read."""
    options = document.get("stream_options")
    if options is None:
        options = {}
    if not isinstance(options, dict) or options.get("include_usage"):
        return False
    document["stream_options"] = {**options, "include_usage": True}
    return True


def _own_key(exchange: Exchange) -> tuple[str, ...]:
    """Return the headers to remove: a Consumer's key is for us, no provider may see it."""
    return CREDENTIALS if exchange.consumer is not None else ()


def azure_path(backend: Backend, path: str, query: str, deployment: str) -> str:
    """Return Azure's path for an OpenAI one: the deployment is in the path, the API version in the query.

    `path` begins with `/v1/`. A caller's own `api-version` stands.
    """
    base = urlsplit(backend.url).path.rstrip("/")
    if not base.endswith("/openai"):
        base += "/openai"
    target = f"{base}/deployments/{quote(deployment, safe='')}{path.removeprefix('/v1')}"
    parts = [part for part in query.split("&") if part]
    if backend.api_version and not any(part.startswith("api-version=") for part in parts):
        parts.insert(0, f"api-version={quote(backend.api_version, safe='')}")
    return f"{target}?{'&'.join(parts)}" if parts else target
