"""What one Envoy has been sent and what it said to it: the rules of xDS as plain data (pure).

State of the world, one subscription a type. See
https://www.envoyproxy.io/docs/envoy/latest/api-docs/xds_protocol: an answer to a stale nonce is ignored; a
request with another list of names is a new subscription and is answered, whatever else it says; what was
refused is not sent again until it changes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from ext_proc.agent.render.clusters import CLUSTER_TYPE
from ext_proc.agent.resources import ResourceSet, TypedResources


@dataclass(frozen=True, slots=True)
class Request:
    """One message from Envoy. `error` is None for anything but a refusal."""

    type_url: str
    names: tuple[str, ...] = ()
    nonce: str = ""
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Response:
    """One message to Envoy: these `names` of the type's resources, of `version`."""

    type_url: str
    version: str
    nonce: str
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Subscription:
    """One type on one stream. `sent` is (version, names) of the last response."""

    names: tuple[str, ...] = ()
    nonce: str = ""
    sent: tuple[str, tuple[str, ...]] | None = None
    acknowledged: str | None = None
    refused: Mapping[str, str] = field(default_factory=dict)


class Subscriptions:
    """The subscriptions of one stream."""

    def __init__(self) -> None:
        self._by_type: dict[str, Subscription] = {}
        self._count = 0

    def __repr__(self) -> str:
        return f"Subscriptions({self._by_type!r})"

    def on_request(self, request: Request) -> None:
        """Take in what Envoy said."""
        known = self._by_type.get(request.type_url)
        if known is None:
            # The first request on a stream may carry the version of the stream before; it is answered.
            self._by_type[request.type_url] = Subscription(names=_wanted(request))
            return
        if request.nonce and request.nonce != known.nonce:
            return
        if request.nonce and known.sent is not None:
            version = known.sent[0]
            if request.error is not None:
                known = replace(known, refused={**known.refused, version: request.error})
            else:
                # Envoy takes a response in before it says anything with its nonce, new names included.
                known = replace(known, acknowledged=version)
        if _wanted(request) != known.names:
            known = replace(known, names=_wanted(request), sent=None)
        self._by_type[request.type_url] = known

    def due(self, current: ResourceSet) -> list[Response]:
        """Return what to send now so that Envoy gets `current`, and remember it as sent."""
        responses: list[Response] = []
        for type_url, typed in current.types.items():
            known = self._by_type.get(type_url)
            if known is None or typed.version in known.refused:
                continue
            names = _matching(known, type_url, typed)
            if known.sent == (typed.version, names):
                continue
            if type_url != CLUSTER_TYPE and not names:
                continue  # what is asked for is not known yet
            self._count += 1
            nonce = str(self._count)
            self._by_type[type_url] = replace(known, nonce=nonce, sent=(typed.version, names))
            responses.append(Response(type_url, typed.version, nonce, names))
        return responses

    def accepted(self, type_url: str, typed: TypedResources) -> bool:
        """Whether Envoy has acknowledged `typed`, as far as it asks for it, and nothing is on its way."""
        known = self._by_type.get(type_url)
        if known is None:
            return False
        names = _matching(known, type_url, typed)
        if not names and type_url != CLUSTER_TYPE:
            return True
        return known.acknowledged == typed.version and known.sent == (typed.version, names)

    def asks_for(self, type_url: str) -> bool:
        """Whether Envoy has subscribed to this type."""
        return type_url in self._by_type

    def refusal(self, type_url: str, version: str) -> str | None:
        """Return Envoy's reason for refusing `version` of this type, or None."""
        known = self._by_type.get(type_url)
        return known.refused.get(version) if known is not None else None


def _wanted(request: Request) -> tuple[str, ...]:
    return tuple(sorted(request.names))


def _matching(known: Subscription, type_url: str, typed: TypedResources) -> tuple[str, ...]:
    if type_url == CLUSTER_TYPE:
        return tuple(typed.by_name)
    return tuple(name for name in known.names if name in typed.by_name)
