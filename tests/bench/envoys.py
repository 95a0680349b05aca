"""The bench's own Envoys: the upstream that answers by itself, and the floor's sidecar."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from tests.bench.upstream import COMPLETION
from tests.harness.mesh import http_status
from tests.harness.processes import free_ports, until

ENVOY: Final = Path(sys.executable).with_name("envoy")

Resource = dict[str, Any]

_TYPE = "type.googleapis.com/envoy"
_BODY_LIMIT = 32 * 1024 * 1024


@contextmanager
def running_upstream(folder: Path, delay_s: int = 0) -> Iterator[int]:
    """Run an upstream that answers after `delay_s` seconds; give its port."""
    port, admin = free_ports(2)
    path = folder / "upstream.json"
    write_upstream(path, port, admin, delay_s)
    options = ["--disable-hot-restart", "--concurrency", "1", "--log-level", "error"]
    process = subprocess.Popen(
        [str(ENVOY), "-c", str(path), *options], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        until(lambda: http_status(f"http://127.0.0.1:{admin}/ready") == 200, 20, "the upstream is ready")
        yield port
    finally:
        process.terminate()
        process.wait()


def write_upstream(path: Path, port: int, admin_port: int, delay_s: int = 0) -> None:
    """Write the configuration of an Envoy that answers every request with one chat completion."""
    route = {
        "match": {"prefix": "/"},
        "direct_response": {"status": 200, "body": {"inline_string": COMPLETION}},
        "response_headers_to_add": [
            {
                "header": {"key": "content-type", "value": "application/json"},
                "append_action": "OVERWRITE_IF_EXISTS_OR_ADD",
            }
        ],
    }
    # Without it the answer would leave before the request's body has come, and cost the connection.
    whole_body = {
        "name": "buffer",
        "typed_config": {
            "@type": f"{_TYPE}.extensions.filters.http.buffer.v3.Buffer",
            "max_request_bytes": _BODY_LIMIT,
        },
    }
    filters = [whole_body]
    if delay_s:
        fault = {
            "@type": f"{_TYPE}.extensions.filters.http.fault.v3.HTTPFault",
            "delay": {"fixed_delay": f"{delay_s}s", "percentage": {"numerator": 100}},
        }
        filters.append({"name": "fault", "typed_config": fault})
    _write(path, admin_port, [_listener(port, filters, [route])], [])


def write_sidecar(path: Path, port: int, admin_port: int, processor: str | None, upstream_port: int) -> None:
    """Write the configuration of a sidecar with the product's filters: ext_proc (or nothing), router."""
    route = {
        "match": {"prefix": "/"},
        "route": {"cluster": "upstream", "timeout": "25s"},
        "request_body_buffer_limit": _BODY_LIMIT,
    }
    clusters = [
        {
            "name": "upstream",
            "type": "STATIC",
            "connect_timeout": "5s",
            "load_assignment": _endpoint("upstream", {"socket_address": _address(upstream_port)}),
        }
    ]
    filters = []
    if processor is not None:
        filters.append(_ext_proc())
        clusters.append(
            {
                "name": "processor",
                "type": "STATIC",
                "connect_timeout": "1s",
                "load_assignment": _endpoint("processor", {"pipe": {"path": processor}}),
                "circuit_breakers": {
                    "thresholds": [
                        {"max_requests": 100_000, "max_pending_requests": 100_000, "max_connections": 1000}
                    ]
                },
                "typed_extension_protocol_options": {
                    "envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
                        "@type": f"{_TYPE}.extensions.upstreams.http.v3.HttpProtocolOptions",
                        "explicit_http_config": {"http2_protocol_options": {}},
                    }
                },
            }
        )
    _write(path, admin_port, [_listener(port, filters, [route])], clusters)


def _ext_proc() -> Resource:
    return {
        "name": "ext_proc",
        "typed_config": {
            "@type": f"{_TYPE}.extensions.filters.http.ext_proc.v3.ExternalProcessor",
            "grpc_service": {"envoy_grpc": {"cluster_name": "processor"}},
            # A floor that passes calls by without its processor would be no floor.
            "failure_mode_allow": False,
            "allow_mode_override": True,
            "message_timeout": "10s",
            "processing_mode": {
                "request_header_mode": "SEND",
                "response_header_mode": "SEND",
                "request_body_mode": "BUFFERED",
                "response_body_mode": "NONE",
                "request_trailer_mode": "SKIP",
                "response_trailer_mode": "SKIP",
            },
        },
    }


def _listener(port: int, filters: list[Resource], routes: list[Resource]) -> Resource:
    router = {
        "name": "router",
        "typed_config": {"@type": f"{_TYPE}.extensions.filters.http.router.v3.Router"},
    }
    manager = {
        "@type": f"{_TYPE}.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": "bench",
        "route_config": {
            "virtual_hosts": [{"name": "all", "domains": ["*"], "routes": routes}],
            "max_direct_response_body_size_bytes": 65536,
        },
        "http_filters": [*filters, router],
    }
    return {
        "name": "bench",
        "address": {"socket_address": _address(port)},
        "filter_chains": [{"filters": [{"name": "hcm", "typed_config": manager}]}],
    }


def _address(port: int) -> Resource:
    return {"address": "127.0.0.1", "port_value": port}


def _endpoint(name: str, address: Resource) -> Resource:
    return {
        "cluster_name": name,
        "endpoints": [{"lb_endpoints": [{"endpoint": {"address": address}}]}],
    }


def _write(path: Path, admin_port: int, listeners: list[Resource], clusters: list[Resource]) -> None:
    bootstrap = {
        "admin": {"address": {"socket_address": _address(admin_port)}},
        "static_resources": {"listeners": listeners, "clusters": clusters},
    }
    path.write_text(json.dumps(bootstrap), encoding="utf-8")
