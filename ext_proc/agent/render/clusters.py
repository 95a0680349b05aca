"""Snapshot → Envoy clusters (pure): one per Backend, with its connections, limits and upstream filters.

The upstream filters make each *attempt* right, whatever an attempt before left in the headers: they overwrite
or remove, never append. See https://www.envoyproxy.io/docs/envoy/latest/api-v3/config/cluster/v3/cluster.proto.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

from ext_proc.agent.render.attempts import attempts_filter
from ext_proc.agent.render.durations import seconds
from ext_proc.agent.render.secrets import AUTHORITIES, credential_header, secret_name
from ext_proc.contract import headers
from ext_proc.contract.endpoint import Endpoint, endpoint_of
from ext_proc.contract.policies import RetryPolicy
from ext_proc.contract.routes import cluster_name, terms_in_use
from ext_proc.contract.snapshot import Backend, Snapshot

Json = dict[str, Any]
TYPE: Final = "type.googleapis.com"
CLUSTER_TYPE: Final = f"{TYPE}/envoy.config.cluster.v3.Cluster"
HTTP_OPTIONS: Final = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"
ADS: Final[Json] = {"ads": {}, "resource_api_version": "V3"}

# Ten minutes of idleness and 10,000 requests a connection are what providers bear.
IDLE: Final = "600s"
REQUESTS_PER_CONNECTION: Final = 10_000
# Half a connection more than there are calls is opened ahead, so that a burst meets warm ones.
PRECONNECT: Final = 1.5
CONNECTIONS: Final = 2_048
STREAMS_PER_CONNECTION: Final = 100  # what most HTTP/2 servers allow
WAITING: Final = 100_000
# Underscores count as hyphens, as in the bootstrap.
INNER_NAMES: Final = "x[-_](outrigger|envoy)[-_].*"
# Even a few calls may be retried; below this number the budget, a share of the calls, would allow none.
FREE_RETRIES: Final = 10


def render_clusters(snapshots: Sequence[Snapshot]) -> dict[str, Json]:
    """Return the clusters of all `snapshots` (oldest first; of one name the newest counts), by name.

    Raises:
        ValueError: a Backend's URL is unusable.
    """
    clusters: dict[str, Json] = {}
    for snapshot in snapshots:
        budget = max((terms.retry.budget for terms in terms_in_use(snapshot)), default=RetryPolicy().budget)
        backed = _backed(snapshot)
        clusters |= {
            cluster_name(backend): _cluster(backend, budget, WAITING if name in backed else FREE_RETRIES)
            for name, backend in snapshot.backends.items()
        }
    return clusters


def _backed(snapshot: Snapshot) -> set[str]:
    """Return the Backends after which another one may be asked; a call begins with a fallback, too."""
    chains = ((model.name, *model.fallbacks) for model in snapshot.models.values())
    asked = {name for chain in chains for name in chain[:-1]} & snapshot.models.keys()
    return {version.backend for name in asked for version in snapshot.models[name].versions}


def _cluster(backend: Backend, budget: float, free_retries: int) -> Json:
    endpoint = endpoint_of(backend)
    name = cluster_name(backend)
    cluster: Json = {
        "@type": CLUSTER_TYPE,
        "name": name,
        "connect_timeout": seconds(backend.timeouts.connect_ms),
        "per_connection_buffer_limit_bytes": 1024 * 1024,
        "lb_policy": "LEAST_REQUEST",
        **_discovery(endpoint),
        "load_assignment": {
            "cluster_name": name,
            "endpoints": [
                {
                    "lb_endpoints": [
                        {
                            "endpoint": {
                                "address": {
                                    "socket_address": {"address": endpoint.host, "port_value": endpoint.port}
                                }
                            }
                        }
                    ]
                }
            ],
        },
        "circuit_breakers": {"thresholds": [_limits(backend, budget, free_retries)]},
        "outlier_detection": _outlier_detection(),
        "upstream_connection_options": {
            "tcp_keepalive": {"keepalive_probes": 3, "keepalive_time": 60, "keepalive_interval": 10}
        },
        "preconnect_policy": {"per_upstream_preconnect_ratio": PRECONNECT},
        "typed_extension_protocol_options": {HTTP_OPTIONS: _http_options(backend, endpoint)},
    }
    if endpoint.tls:
        cluster["transport_socket"] = _tls(endpoint)
    return cluster


def _discovery(endpoint: Endpoint) -> Json:
    if endpoint.is_address:
        return {"type": "STATIC"}
    # STRICT, so that each address of a name is a host of its own, which can be ejected alone.
    return {
        "type": "STRICT_DNS",
        "dns_lookup_family": "V4_PREFERRED",
        "dns_refresh_rate": "30s",
        "dns_failure_refresh_rate": {"base_interval": "1s", "max_interval": "10s"},
    }


def _streams(backend: Backend) -> tuple[int, int]:
    """Return (connections, streams a connection) that together carry what the quota allows at once.

    Envoy lets a request wait for a connection, but refuses one above `max_requests`; so the limit is made of
    connections. Where ALPN decides between HTTP/1.1 and 2 only one stream a connection is right for both.
    """
    allowed = backend.quota.concurrency
    if allowed is None:
        return CONNECTIONS, STREAMS_PER_CONNECTION
    if backend.http != "2":
        return allowed, 1
    connections = math.ceil(allowed / STREAMS_PER_CONNECTION)
    return connections, max(1, allowed // connections)


def _limits(backend: Backend, budget: float, free_retries: int) -> Json:
    connections, _ = _streams(backend)
    return {
        "max_connections": connections,
        "max_pending_requests": WAITING,
        "max_requests": WAITING,
        "retry_budget": {
            "budget_percent": {"value": round(min(1.0, max(0.0, budget)) * 100, 3)},
            # Envoy counts the way to a stand-in as a retry of the first: when that fails, all have to go.
            "min_retry_concurrency": free_retries,
        },
    }


def _outlier_detection() -> Json:
    """Eject an address that fails again and again while another one works.

    At most half of them go, so a provider with a single address is never cut off by its own errors: its
    answers pass, and the caller sees what is wrong.
    """
    return {
        "consecutive_5xx": 5,
        "consecutive_gateway_failure": 5,
        "enforcing_consecutive_gateway_failure": 100,
        "split_external_local_origin_errors": True,
        "consecutive_local_origin_failure": 3,
        "enforcing_success_rate": 0,
        "enforcing_local_origin_success_rate": 0,
        "interval": "1s",
        "base_ejection_time": "10s",
        "max_ejection_time": "60s",
        "max_ejection_percent": 50,
    }


def _tls(endpoint: Endpoint) -> Json:
    kind = "IP_ADDRESS" if endpoint.is_address else "DNS"
    context: Json = {
        "@type": f"{TYPE}/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext",
        "common_tls_context": {
            "combined_validation_context": {
                "default_validation_context": {
                    "match_typed_subject_alt_names": [
                        {"san_type": kind, "matcher": {"exact": endpoint.host, "ignore_case": True}}
                    ]
                },
                "validation_context_sds_secret_config": {"name": AUTHORITIES, "sds_config": ADS},
            }
        },
    }
    if not endpoint.is_address:
        context["sni"] = endpoint.host
    return {"name": "envoy.transport_sockets.tls", "typed_config": context}


def _http_options(backend: Backend, endpoint: Endpoint) -> Json:
    _, streams = _streams(backend)
    http1: Json = {"enable_trailers": True}
    http2: Json = {
        "max_concurrent_streams": streams,
        "connection_keepalive": {"interval": "30s", "timeout": "10s"},
    }
    options: Json = {
        "@type": f"{TYPE}/{HTTP_OPTIONS}",
        "common_http_protocol_options": {
            "idle_timeout": IDLE,
            "max_requests_per_connection": REQUESTS_PER_CONNECTION,
            "max_headers_count": 200,
        },
        "http_filters": _filters(backend),
    }
    if backend.http == "2":
        options["explicit_http_config"] = {"http2_protocol_options": http2}
    elif backend.http == "auto" and endpoint.tls:
        options["auto_config"] = {"http_protocol_options": http1, "http2_protocol_options": http2}
    else:
        options["explicit_http_config"] = {"http_protocol_options": http1}
    return options


def _filters(backend: Backend) -> list[Json]:
    filters = [attempts_filter(), _inner_headers(backend)]
    if backend.credential is not None:
        filters.append(_key(backend))
    filters.append(
        {
            "name": "envoy.filters.http.upstream_codec",
            "typed_config": {
                "@type": f"{TYPE}/envoy.extensions.filters.http.upstream_codec.v3.UpstreamCodec"
            },
        }
    )
    return filters


def _inner_headers(backend: Backend) -> Json:
    """Keep our headers and Envoy's from the provider; stamp the Backend that answered on the answer.

    A Backend with a key of its own sees no other: neither the caller's nor that of the attempt before.
    """
    request: list[Json] = [
        {"remove_on_match": {"key_matcher": {"prefix": headers.PREFIX}}},
        {"remove_on_match": {"key_matcher": {"prefix": "x-envoy-"}}},
        {"remove": "x-forwarded-proto"},
        {"remove": headers.REQUEST_ID},
    ]
    if backend.credential is not None:
        request += [{"remove": name} for name in headers.CREDENTIALS]
    # In trailers nobody looks for a Consumer's key, and no credential is of use there.
    trailers: list[Json] = [
        {"remove_on_match": {"key_matcher": {"safe_regex": {"regex": INNER_NAMES}}}},
        {"remove": "authorization"},
        {"remove": "api-key"},
    ]
    response: list[Json] = [
        {"remove_on_match": {"key_matcher": {"prefix": headers.PREFIX}}},
        {"remove_on_match": {"key_matcher": {"prefix": "x-envoy-"}}},
        {
            "append": {
                "header": {"key": headers.BACKEND, "value": backend.name},
                "append_action": "OVERWRITE_IF_EXISTS_OR_ADD",
            }
        },
    ]
    return {
        "name": "envoy.filters.http.header_mutation",
        "typed_config": {
            "@type": f"{TYPE}/envoy.extensions.filters.http.header_mutation.v3.HeaderMutation",
            "mutations": {
                "request_mutations": request,
                "request_trailers_mutations": trailers,
                "response_mutations": response,
            },
        },
    }


def _key(backend: Backend) -> Json:
    return {
        "name": "envoy.filters.http.credential_injector",
        "typed_config": {
            "@type": f"{TYPE}/envoy.extensions.filters.http.credential_injector.v3.CredentialInjector",
            "overwrite": True,
            # A key that cannot be found is the provider's 401, which says so; not an error of ours.
            "allow_request_without_credential": True,
            "credential": {
                "name": "envoy.http.injected_credentials.generic",
                "typed_config": {
                    "@type": f"{TYPE}/envoy.extensions.http.injected_credentials.generic.v3.Generic",
                    "credential": {"name": secret_name(backend), "sds_config": ADS},
                    "header": credential_header(backend),
                },
            },
        },
    }
