"""Snapshots → Envoy's route table (pure).

One route for each id that the processor may name, found by that. For other requests, in order: a refusal of
TRACE and of escaped slashes; the way to another processor; a refusal of ids that Envoy does not know; the
fail-open routes, which take what the processor has not decided; 404 for everything outside the API.

See https://www.envoyproxy.io/docs/envoy/latest/api-v3/config/route/v3/route_components.proto.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any, Final

from ext_proc.agent.local_replies import (
    CLOSED_ROUTE,
    NO_BACKEND_ROUTE,
    UNKNOWN_PATH,
    UNKNOWN_PATH_MESSAGE,
    error_text,
    request_id_header,
)
from ext_proc.agent.render.attempts import attempt_terms
from ext_proc.agent.render.durations import seconds
from ext_proc.agent.render.priority_groups import by_plan
from ext_proc.contract import headers, telemetry
from ext_proc.contract.endpoint import endpoint_of
from ext_proc.contract.policies import RetryPolicy
from ext_proc.contract.routes import (
    ORIGIN_ROUTE,
    CallShape,
    RouteTerms,
    cluster_name,
    most_stand_ins,
    route_id,
    shapes_of,
    terms_in_use,
)
from ext_proc.contract.snapshot import Backend, Snapshot
from ext_proc.openai.errors import ErrorType

Json = dict[str, Any]
TYPE: Final = "type.googleapis.com"
ROUTES_TYPE: Final = f"{TYPE}/envoy.config.route.v3.RouteConfiguration"
ROUTE_TYPE: Final = f"{TYPE}/envoy.config.route.v3.Route"
ROUTE_LIST_TYPE: Final = f"{TYPE}/envoy.config.route.v3.RouteList"
NAME_INPUT: Final = f"{TYPE}/envoy.type.matcher.v3.HttpRequestHeaderMatchInput"
PREVIOUS_HOSTS: Final[Json] = {
    "name": "envoy.retry_host_predicates.previous_hosts",
    "typed_config": {"@type": f"{TYPE}/envoy.extensions.retry.host.previous_hosts.v3.PreviousHostsPredicate"},
}
# How often Envoy looks for an address that was not tried yet, before it takes one that was.
HOST_SELECTIONS: Final = 3
PER_ROUTE: Final = f"{TYPE}/envoy.extensions.filters.http.ext_proc.v3.ExtProcPerRoute"
EXT_PROC: Final = "envoy.filters.http.ext_proc"
ROUTES_NAME: Final = "outrigger"
NOWHERE: Final = "outrigger_nowhere"
# How the names of the routes begin that take what the processor has not decided.
UNDECIDED: Final = "undecided"
BODY_LIMIT: Final = 32 * 1024 * 1024
COMPLETION_PATHS: Final = "/v1/(?:chat/)?completions/?"
PARSED_PATHS: Final = "/v1/(?:chat/completions|completions|embeddings)/?"
ESCAPED: Final = ".*%(?:2[fF]|5[cC]).*"
FILTER_ON: Final[Json] = {"@type": f"{TYPE}/envoy.config.route.v3.FilterConfig", "config": {}}
# Filters of the bootstrap that read token numbers out of answers, off but where a route says otherwise.
TOKEN_FILTERS: Final = ("envoy.filters.http.json_to_metadata", "envoy.filters.http.sse_to_metadata")
CONSUMER_KEY: Final = rf"(?i)(?:.*[\s,])?{headers.CONSUMER_KEY_PREFIX}.*"
RAW_IDLE_MS: Final = 300_000
ORIGIN_MARGIN_MS: Final = 1_000
# Of these a call may have stand-ins.
_PLANNED: Final = (CallShape.JSON, CallShape.STREAM)
NO_ROUTE: Final = "no-route"
ROUTE_REASONS: Final = (NO_ROUTE, UNKNOWN_PATH)


def render_routes(snapshots: Sequence[Snapshot]) -> Json:
    """Return the route table for `snapshots` (oldest first, at least one; the last one decides failing open).

    Raises:
        ValueError: a Backend's URL is unusable.
    """
    decided: dict[str, Json] = {}
    longest_silence = 0
    for snapshot in snapshots:
        # Once, and not for each Backend: it asks every Policy about every name.
        in_use, most_planned = tuple(terms_in_use(snapshot)), most_stand_ins(snapshot)
        for backend, terms in product(snapshot.backends.values(), in_use):
            longest_silence = max(longest_silence, _longest_silence_ms(backend, terms))
            for shape in shapes_of(terms):
                for stand_ins in range((most_planned if shape in _PLANNED else 0) + 1):
                    name = route_id(backend, terms, shape, stand_ins)
                    decided[name] = _decided(name, backend, terms, shape, stand_ins)
    current = snapshots[-1]
    host: Json = {
        "name": "api",
        "domains": ["*"],
        **_found(
            decided,
            [
                _trace(),
                *_escaped(),
                _origin(longest_silence),
                _unknown_route(),
                *_undecided(current),
                _outside(),
            ],
        ),
        "typed_per_filter_config": {EXT_PROC: _processing("BUFFERED")},
        # The upstream filters count attempts by it, and keep it from providers.
        "include_request_attempt_count": True,
    }
    return {
        "@type": ROUTES_TYPE,
        "name": ROUTES_NAME,
        "virtual_hosts": [host],
        # The upstream filters keep our id from providers, and so from Envoy's own way to set it.
        "response_headers_to_add": [request_id_header(), *_stamps()],
        "response_headers_to_remove": [headers.RETRY, headers.WAIT, headers.KEY],
    }


def _found(decided: Mapping[str, Json], others: list[Json]) -> Json:
    """Return how Envoy finds a route: that which the processor names by its name, any other by trying.

    Tried one after the other, a thousand routes cost each request 140 µs.
    """
    if not decided:  # Envoy refuses an empty map
        return {"routes": others}
    return {
        "matcher": {
            "matcher_tree": {
                "input": {
                    "name": "name",
                    "typed_config": {"@type": NAME_INPUT, "header_name": headers.ROUTE},
                },
                "exact_match_map": {
                    "map": {name: _action({"@type": ROUTE_TYPE, **route}) for name, route in decided.items()}
                },
            },
            "on_no_match": _action({"@type": ROUTE_LIST_TYPE, "routes": others}),
        }
    }


def _action(typed_config: Json) -> Json:
    return {"action": {"name": "route", "typed_config": typed_config}}


def _stamps() -> list[Json]:
    """Return the response headers that say what became of a request, as the processor told by metadata.

    So it need not be asked about the response; without its word they are left out.
    """
    return [
        {
            "header": {"key": name, "value": f"%DYNAMIC_METADATA({telemetry.NAMESPACE}:{field})%"},
            "append_action": "OVERWRITE_IF_EXISTS_OR_ADD",
        }
        for name, field in (
            (headers.MODEL, telemetry.SHOWN_MODEL),
            (headers.VERSION, telemetry.VERSION),
            (headers.CACHE, telemetry.CACHE),
            (headers.CLAMPED, telemetry.CLAMPED),
        )
    ]


def _processing(body: str) -> Json:
    """Return how requests of the API are processed.

    Response headers are asked for here and not in the bootstrap, so that they are not for what Envoy refuses
    before it has a route: an answer that waits for the processor is lost when the connection is closed.

    `failure_mode_allow` stays true with `failOpen: false` too: what the processor has not decided meets the
    closed route then. False would also turn answers that are on their way when it dies into 503s.
    """
    return {
        "@type": PER_ROUTE,
        "overrides": {
            "failure_mode_allow": True,
            "processing_mode": {
                "request_header_mode": "SEND",
                "request_body_mode": body,
                "request_trailer_mode": "SKIP",
                "response_header_mode": "SEND",
                "response_body_mode": "NONE",
                "response_trailer_mode": "SKIP",
            },
        },
    }


def _decided(name: str, backend: Backend, terms: RouteTerms, shape: CallShape, stand_ins: int) -> Json:
    # On Azure the deployment is part of the path, which the processor has written in full.
    prefix = "/" if backend.protocol == "azure-openai" else "/v1/"
    route: Json = {
        "name": name,
        "match": {"prefix": prefix},
        "metadata": attempt_terms(terms),
        "route": {
            **_destination(backend),
            **_time_limits(backend, shape),
            **_silence_limit(backend, terms, shape),
            "retry_policy": _retry(backend, terms, shape, stand_ins),
            **({"hedge_policy": {"hedge_on_per_try_timeout": True}} if shape is CallShape.HEDGED else {}),
        },
        "response_headers_to_add": [_header(headers.ATTEMPTS, "%UPSTREAM_REQUEST_ATTEMPT_COUNT%")],
        **_parsed(shape is not CallShape.RAW),
    }
    return by_plan(route) if stand_ins else route


def _origin(longest_silence_ms: int) -> Json:
    """Send a follower of a flight to the processor that has the stream.

    The stream's own limits end it. So it is silent for longer than any of them only when the processor
    hangs, and nothing else would cut a follower then.
    """
    return {
        "name": ORIGIN_ROUTE,
        "match": {
            "prefix": "/",
            "headers": [{"name": headers.ROUTE, "string_match": {"exact": ORIGIN_ROUTE}}],
        },
        "route": {
            "cluster_header": headers.ORIGIN,
            "cluster_not_found_response_code": "SERVICE_UNAVAILABLE",
            "timeout": "0s",
            "idle_timeout": seconds(longest_silence_ms + ORIGIN_MARGIN_MS),
        },
        **_parsed(True),
    }


def _longest_silence_ms(backend: Backend, terms: RouteTerms) -> int:
    """Return how long a stream may be silent whose leader leaves it in silence: another call begins then."""
    policy, limits = terms.retry, backend.timeouts
    waits = (policy.attempts - 1) * max(policy.longest_ms, terms.hold.max_ms)
    begins = policy.attempts * max(limits.request_ms, limits.stream_idle_ms) + waits
    return begins + limits.stream_idle_ms


def _parsed(parsed: bool) -> Json:
    """Return what a route has whose bodies we read: room for them, and an answer that is not coded."""
    if not parsed:
        return {}
    return {
        "request_body_buffer_limit": BODY_LIMIT,
        "request_headers_to_add": [_header("accept-encoding", "identity")],
    }


def _destination(backend: Backend) -> Json:
    endpoint = endpoint_of(backend)
    destination: Json = {"cluster": cluster_name(backend), "host_rewrite_literal": endpoint.authority}
    if backend.protocol == "openai" and endpoint.base_path != "/v1":
        literal = endpoint.base_path.replace("\\", "\\\\")
        destination["regex_rewrite"] = {
            "pattern": {"regex": "^/v1/(.*)$"},
            "substitution": f"{literal}/\\1",
        }
    return destination


def _time_limits(backend: Backend, shape: CallShape) -> Json:
    limits = backend.timeouts
    if shape in (CallShape.JSON, CallShape.HEDGED):
        return {"timeout": seconds(limits.request_ms), "idle_timeout": "0s"}
    if shape is CallShape.STREAM:
        return {"timeout": "0s", "idle_timeout": "0s"}
    return {
        "timeout": "0s",
        "idle_timeout": seconds(max(RAW_IDLE_MS, limits.request_ms, limits.stream_idle_ms)),
    }


def _silence_limit(backend: Backend, terms: RouteTerms, shape: CallShape) -> Json:
    """Return what ends a stream that has fallen silent, where that is not each try's own limit.

    Envoy drops a try's `per_try_idle_timeout` when its `per_try_timeout` is over, also when the answer has
    begun (UpstreamRequest::onPerTryTimeout); so a stream older than `timeouts.request` needs the limit of the
    whole call. That one runs while tries fail, too: where the try's own limit is the shorter one, it leaves
    room for all of them.
    """
    if shape is not CallShape.STREAM:
        return {}
    limits = backend.timeouts
    if limits.stream_idle_ms >= limits.request_ms:
        return {"idle_timeout": seconds(limits.stream_idle_ms)}
    waits = max(terms.retry.longest_ms, terms.hold.max_ms)
    tries = terms.retry.attempts * limits.stream_idle_ms + (terms.retry.attempts - 1) * waits
    return {"idle_timeout": seconds(max(limits.request_ms, tries))}


def _retry(backend: Backend, terms: RouteTerms, shape: CallShape, stand_ins: int = 0) -> Json:
    policy = terms.retry
    retry: Json = {
        "num_retries": max(0, policy.attempts - 1) + stand_ins,
        "retry_back_off": {
            "base_interval": seconds(max(1, policy.base_ms)),
            "max_interval": seconds(max(1, policy.longest_ms)),
        },
        # A name with several addresses: the next try goes to one that was not tried yet, if there is one.
        "retry_host_predicate": [PREVIOUS_HOSTS],
        "host_selection_retry_max_attempts": HOST_SELECTIONS,
    }
    if shape is CallShape.RAW:
        # The body is not held, so only a try that sent none of it can be made again.
        retry["retry_on"] = "connect-failure" if "connect" in policy.retry_on else ""
        return retry
    retry |= _conditions(policy)
    if terms.hold.max_ms > 0:
        retry["rate_limited_retry_back_off"] = {
            "reset_headers": [{"name": headers.WAIT, "format": "SECONDS"}],
            # The attempt's filter has seen to it that no wait is longer than allowed; this one is rounded up.
            "max_interval": seconds(terms.hold.max_ms + 1_000),
        }
    if shape is CallShape.HEDGED and policy.hedge_after_ms is not None:
        # It ends no try: another one begins beside it.
        retry["per_try_timeout"] = seconds(policy.hedge_after_ms)
    if shape is CallShape.STREAM:
        retry["per_try_timeout"] = seconds(backend.timeouts.request_ms)
        retry["per_try_idle_timeout"] = seconds(backend.timeouts.stream_idle_ms)
    return retry


def _conditions(policy: RetryPolicy) -> Json:
    """Return when Envoy tries again. Of answers the attempt's own filter decides: it reads more of them."""
    conditions: list[str] = []
    if "connect" in policy.retry_on:
        conditions.append("connect-failure")
    if "reset" in policy.retry_on:
        conditions += ["reset", "refused-stream"]
    conditions.append("retriable-headers")
    return {
        "retry_on": ",".join(conditions),
        "retriable_headers": [{"name": headers.RETRY, "string_match": {"exact": "1"}}],
    }


def _trace() -> Json:
    """Refuse TRACE: a provider that knows it answers with the headers that it got, its own key among them."""
    return {
        "name": "trace",
        "match": {"prefix": "/", "headers": [{"name": ":method", "string_match": {"exact": "TRACE"}}]},
        **_answer(405, "bad-request", "The method TRACE is not allowed.", ErrorType.INVALID_REQUEST),
        "typed_per_filter_config": {EXT_PROC: {"@type": PER_ROUTE, "disabled": True}},
    }


def _escaped() -> list[Json]:
    """Refuse slashes that are escaped: a provider may take them for slashes, and follow dots out of its API.

    In the name of a Model the processor judges; this holds while it is down.
    """
    refused = _answer(400, "bad-path", "The request's path is not valid.", ErrorType.INVALID_REQUEST)
    return [
        {"name": "escaped-model", "match": {"safe_regex": {"regex": f"/v1/models/{ESCAPED}"}}, **refused},
        {
            "name": "escaped",
            "match": {"safe_regex": {"regex": ESCAPED}},
            **refused,
            "typed_per_filter_config": {EXT_PROC: {"@type": PER_ROUTE, "disabled": True}},
        },
    ]


def _unknown_route() -> Json:
    """Refuse a decision that Envoy has no route for; the default Backend must never get such a request."""
    return {
        "name": NO_ROUTE,
        "match": {"prefix": "/", "headers": [{"name": headers.ROUTE, "present_match": True}]},
        **_answer(503, NO_ROUTE, "The sidecar is taking over new policy: try again.", ErrorType.SERVER),
    }


def _outside() -> Json:
    return {
        "name": "outside",
        "match": {"prefix": "/"},
        **_answer(404, UNKNOWN_PATH, UNKNOWN_PATH_MESSAGE, ErrorType.INVALID_REQUEST),
        "typed_per_filter_config": {EXT_PROC: {"@type": PER_ROUTE, "disabled": True}},
    }


def _answer(status: int, reason: str, message: str, kind: ErrorType) -> Json:
    return {
        "direct_response": {"status": status, "body": {"inline_string": error_text(reason, message, kind)}},
        "response_headers_to_add": [
            _header("content-type", "application/json"),
            _header(headers.ERROR, reason),
        ],
    }


def _undecided(snapshot: Snapshot) -> list[Json]:
    """Return the routes of requests that the processor has not decided: it is down, or has not yet.

    Every request is on one of them while the processor decides, so they also say how its body is treated.
    """
    backend = snapshot.backends.get(snapshot.default_backend) if snapshot.default_backend else None
    routes: list[Json] = []
    for paths in (COMPLETION_PATHS, PARSED_PATHS, None):
        if not snapshot.fail_open:
            found = [_nowhere(CLOSED_ROUTE, paths)]
        elif backend is None or backend.protocol == "azure-openai":
            found = [_nowhere(NO_BACKEND_ROUTE, paths)]
        else:
            found = _fail_open(backend, paths)
        # Where a body is to be held, all of it that comes before the processor's word counts against the
        # limit; where not, Envoy stops reading instead.
        filters = {EXT_PROC: _processing("NONE" if paths is None else "BUFFERED")}
        if paths is COMPLETION_PATHS:
            # An embeddings answer is a page of numbers: too much to parse on the thread of all traffic.
            filters |= dict.fromkeys(TOKEN_FILTERS, FILTER_ON)
        routes += [{**route, "typed_per_filter_config": filters} for route in found]
    return routes


def _undecided_match(paths: str | None) -> Json:
    return {"prefix": "/v1/"} if paths is None else {"safe_regex": {"regex": paths}}


def _fail_open(backend: Backend, paths: str | None) -> list[Json]:
    parsed = paths is not None
    shape = CallShape.STREAM if parsed else CallShape.RAW
    route: Json = {
        "metadata": attempt_terms(RouteTerms()),
        "route": {
            **_destination(backend),
            **_time_limits(backend, shape),
            "retry_policy": _undecided_retry(backend, shape),
        },
        **_parsed(parsed),
    }
    name = UNDECIDED if parsed else f"{UNDECIDED}-raw"
    match = _undecided_match(paths)
    # A Consumer's key never leaves the mesh.
    without_key = [
        {
            "name": f"{name}-consumer",
            "match": {
                **match,
                "headers": [{"name": header, "string_match": {"safe_regex": {"regex": CONSUMER_KEY}}}],
            },
            **route,
            "request_headers_to_remove": list(headers.CREDENTIALS),
        }
        for header in headers.CREDENTIALS
    ]
    return [*without_key, {"name": name, "match": match, **route}]


def _undecided_retry(backend: Backend, shape: CallShape) -> Json:
    retry = _retry(backend, RouteTerms(), shape)
    if "per_try_idle_timeout" in retry:
        # Whether it is a stream is not known here, and a JSON answer is silent until it is there.
        limits = backend.timeouts
        retry["per_try_idle_timeout"] = seconds(max(limits.stream_idle_ms, limits.request_ms))
    return retry


def _nowhere(name: str, paths: str | None) -> Json:
    route: Json = {"name": name, "match": _undecided_match(paths), "route": {"cluster": NOWHERE}}
    if paths is not None:
        route["request_body_buffer_limit"] = BODY_LIMIT
    return route


def _header(name: str, value: str) -> Mapping[str, Any]:
    return {"header": {"key": name, "value": value}, "append_action": "OVERWRITE_IF_EXISTS_OR_ADD"}
