"""A set of Envoy's resources as ADS serves it: plain data in, versioned protobuf out.

The version of a type is a digest of its content, so that an unchanged type is not sent again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import orjson
from envoy.config.cluster.v3 import cluster_pb2
from envoy.config.route.v3 import route_components_pb2, route_pb2
from envoy.extensions.common.matching.v3 import extension_matcher_pb2  # noqa: F401
from envoy.extensions.filters.common.matcher.action.v3 import skip_action_pb2  # noqa: F401
from envoy.extensions.filters.http.credential_injector.v3 import credential_injector_pb2  # noqa: F401
from envoy.extensions.filters.http.ext_proc.v3 import ext_proc_pb2  # noqa: F401
from envoy.extensions.filters.http.header_mutation.v3 import header_mutation_pb2  # noqa: F401
from envoy.extensions.filters.http.lua.v3 import lua_pb2  # noqa: F401
from envoy.extensions.filters.http.upstream_codec.v3 import upstream_codec_pb2  # noqa: F401
from envoy.extensions.http.injected_credentials.generic.v3 import generic_pb2  # noqa: F401
from envoy.extensions.retry.host.previous_hosts.v3 import previous_hosts_pb2  # noqa: F401
from envoy.extensions.transport_sockets.tls.v3 import secret_pb2, tls_pb2  # noqa: F401
from envoy.extensions.upstreams.http.v3 import http_protocol_options_pb2  # noqa: F401
from envoy.type.matcher.v3 import http_inputs_pb2  # noqa: F401
from google.protobuf import any_pb2, json_format

from ext_proc.agent.render.clusters import CLUSTER_TYPE
from ext_proc.agent.render.priority_groups import refresh_clusters
from ext_proc.agent.render.routes import ROUTE_TYPE, ROUTES_TYPE
from ext_proc.agent.render.secrets import SECRET_TYPE

# The imports that nothing here names register the types which resources hold inside an Any.

Json = dict[str, Any]
TYPES: Final = (CLUSTER_TYPE, SECRET_TYPE, ROUTES_TYPE)


@dataclass(frozen=True, slots=True)
class TypedResources:
    """All resources of one type, by name, serialised; `version` is a digest of them."""

    version: str
    by_name: Mapping[str, any_pb2.Any]


@dataclass(frozen=True, slots=True)
class ResourceSet:
    """What Envoy shall have, by type URL. A type that is absent is not known yet: Envoy is left waiting."""

    types: Mapping[str, TypedResources] = field(default_factory=dict)

    def only(self, *type_urls: str) -> ResourceSet:
        """Return the part of this set that is of these types."""
        return ResourceSet({url: typed for url, typed in self.types.items() if url in type_urls})

    def replacing(self, other: ResourceSet) -> ResourceSet:
        """Return this set with the types of `other` in place of its own."""
        return ResourceSet({**self.types, **other.types})


def resource_set(resources: Mapping[str, Mapping[str, Json]]) -> ResourceSet:
    """Return the set made of rendered resources: type URL → name → resource.

    Raises:
        ValueError: a resource has a field that Envoy's API does not know (a defect of the renderer).
    """
    _CLUSTERS.begin()
    _ROUTES.begin()
    return ResourceSet({url: _typed(url, by_name) for url, by_name in resources.items()})


def _typed(type_url: str, by_name: Mapping[str, Json]) -> TypedResources:
    packed: dict[str, any_pb2.Any] = {}
    digest = hashlib.sha256()
    for name in sorted(by_name):
        fields = {key: value for key, value in by_name[name].items() if key != "@type"}
        try:
            content = _WRITERS[type_url](fields)
        except (json_format.ParseError, TypeError) as error:
            raise ValueError(f"{name}: {error}") from error
        digest.update(content)
        packed[name] = any_pb2.Any(type_url=type_url, value=content)
    return TypedResources(digest.hexdigest()[:16], packed)


def _written(fields: Json, message: Any) -> bytes:
    content: bytes = json_format.ParseDict(fields, message).SerializeToString(deterministic=True)
    return content


def _secret(fields: Json) -> bytes:
    # Not kept, as it may hold a provider's key.
    return _written(fields, secret_pb2.Secret())


def _route_table(fields: Json) -> bytes:
    """Write a route table. It has hundreds of routes and few new ones at a change: each is read once."""
    hosts = fields.get("virtual_hosts", [])
    bare = {**fields, "virtual_hosts": [_without_decided(host) for host in hosts]}
    table = json_format.ParseDict(bare, route_pb2.RouteConfiguration())
    for host, written in zip(hosts, table.virtual_hosts, strict=True):
        for name, found in _decided(host).items():
            action = found["action"]
            packed = written.matcher.matcher_tree.exact_match_map.map[name].action
            packed.name = action["name"]
            packed.typed_config.type_url = ROUTE_TYPE
            packed.typed_config.value = _ROUTES.of(action["typed_config"])
    content: bytes = table.SerializeToString(deterministic=True)
    return content


def _decided(host: Json) -> dict[str, Json]:
    found: dict[str, Json] = (
        host["matcher"]["matcher_tree"]["exact_match_map"]["map"] if "matcher" in host else {}
    )
    return found


def _without_decided(host: Json) -> Json:
    if "matcher" not in host:
        return host
    tree = {**host["matcher"]["matcher_tree"], "exact_match_map": {"map": {}}}
    return {**host, "matcher": {**host["matcher"], "matcher_tree": tree}}


def _route(fields: Json) -> bytes:
    route = json_format.ParseDict(
        {key: value for key, value in fields.items() if key != "@type"}, route_components_pb2.Route()
    )
    refresh_clusters(route)
    content: bytes = route.SerializeToString(deterministic=True)
    return content


class _Written:
    """What `write` has made of the resources of the last set and of this one, so as to make each once."""

    def __init__(self, write: Callable[[Json], bytes]) -> None:
        self._write = write
        self._last: dict[bytes, bytes] = {}
        self._now: dict[bytes, bytes] = {}

    def begin(self) -> None:
        """Begin another set."""
        self._last, self._now = self._now, {}

    def of(self, fields: Json) -> bytes:
        """Return `fields` as protobuf."""
        key = hashlib.blake2b(orjson.dumps(fields), digest_size=16).digest()
        made = self._last.get(key) or self._now.get(key)
        if made is None:
            made = self._write(fields)
        self._now[key] = made
        return made


_CLUSTERS: Final = _Written(lambda fields: _written(fields, cluster_pb2.Cluster()))
_ROUTES: Final = _Written(_route)
_WRITERS: Final[Mapping[str, Callable[[Json], bytes]]] = {
    CLUSTER_TYPE: _CLUSTERS.of,
    SECRET_TYPE: _secret,
    ROUTES_TYPE: _route_table,
}
