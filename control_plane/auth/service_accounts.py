"""Sidecars by their pods' service accounts: the API server says whose a token is, not the pod.

A token is good when TokenReview says so for our audience. Who shows it is then the pod that the token is
bound to, as the API server has it: name, namespace and labels cannot be made up. What is known of a token is
kept for a while, no longer than it is valid.
https://kubernetes.io/docs/reference/kubernetes-api/authentication-resources/token-review-v1
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol
from urllib.parse import quote

import orjson

from control_plane.auth.throttle import Throttle

AUDIENCE: Final = "outrigger"
REVIEWS: Final = "/apis/authentication.k8s.io/v1/tokenreviews"
KNOWN_FOR_S: Final = 300.0
REFUSED_FOR_S: Final = 5.0
MAX_KNOWN: Final = 20_000
MAX_TOKEN: Final = 16 * 1024
AT_ONCE: Final = 20
_USER: Final = "system:serviceaccount:"
_EXTRA: Final = "authentication.kubernetes.io/"


class Calls(Protocol):
    """The API server."""

    def call(self, method: str, path: str, *, body: object = None) -> Awaitable[dict[str, Any]]:
        """Return the answer to one call; raises what it raises."""
        ...


@dataclass(frozen=True, slots=True)
class Holder:
    """Who shows a token. `pod` is "" for a token that is bound to none."""

    namespace: str
    service_account: str
    pod: str
    workload: str
    labels: Mapping[str, str]

    @property
    def sidecar(self) -> str | None:
        """What the sidecar is called: unique in the cluster; None when it may say that itself."""
        return f"{self.namespace}/{self.pod}" if self.pod else None


@dataclass(frozen=True, slots=True)
class _Known:
    holder: Holder | None
    until_s: float


def is_signed(token: str) -> bool:
    """Whether `token` has the form of a service account's (a JWT), which none of our own has."""
    return token.startswith("eyJ") and token.count(".") == 2 and len(token) <= MAX_TOKEN


class ServiceAccounts:
    """Tells whose a service account's token is.

    Args:
        kubernetes: the API server.
        workload_of: from a pod's metadata to the workload's name.
        throttle: counts wrong tokens, each of which would be a question to the API server.
        clock: a monotonic clock, in seconds.
        now: the time of day, in seconds since 1970.
    """

    def __init__(
        self,
        kubernetes: Calls,
        workload_of: Callable[[Mapping[str, Any]], str],
        *,
        throttle: Throttle,
        clock: Callable[[], float],
        now: Callable[[], float],
    ) -> None:
        self._throttle = throttle
        self._kubernetes = kubernetes
        self._workload_of = workload_of
        self._clock = clock
        self._now = now
        self._known: OrderedDict[bytes, _Known] = OrderedDict()
        self._asking = asyncio.Semaphore(AT_ONCE)

    async def holder(self, token: str, source: str) -> Holder | None:
        """Return who shows `token`; None when it is not valid for us.

        `source` is the address it came from, "" for a token that is looked at again. From one that has shown
        too many wrong ones, one that is not known is refused unseen.

        Raises whatever the API server's client does when it cannot be asked.
        """
        digest = hashlib.blake2b(token.encode("utf-8", "surrogatepass"), digest_size=32).digest()
        known = self._known.get(digest)
        if known is not None and self._clock() < known.until_s:
            return known.holder
        if source and self._throttle.take(source) is not None:
            return None
        wrong = False
        try:
            async with self._asking:
                holder = await self._ask(token)
            wrong = holder is None
        finally:
            # That the API server could not be asked is nobody's fault.
            if source and not wrong:
                self._throttle.give_back(source)
        kept_s = min(KNOWN_FOR_S, _valid_for_s(token, self._now())) if holder else REFUSED_FOR_S
        self._known[digest] = _Known(holder, self._clock() + kept_s)
        self._known.move_to_end(digest)
        if len(self._known) > MAX_KNOWN:
            self._known.popitem(last=False)
        return holder

    async def _ask(self, token: str) -> Holder | None:
        review = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenReview",
            "spec": {"token": token, "audiences": [AUDIENCE]},
        }
        status = (await self._kubernetes.call("POST", REVIEWS, body=review)).get("status") or {}
        user = status.get("user") or {}
        name = str(user.get("username") or "")
        # A server that knows no audiences names none: its answer holds for any token, so not for ours.
        if not status.get("authenticated") or AUDIENCE not in (status.get("audiences") or ()):
            return None
        if not name.startswith(_USER) or name.count(":") != 3:
            return None
        _, _, namespace, account = name.split(":")
        pod, uid = (_first(user.get("extra") or {}, what) for what in ("pod-name", "pod-uid"))
        if not pod:
            labels = {"namespace": namespace, "serviceAccount": account}
            return Holder(namespace, account, "", account, labels)
        found = await self._kubernetes.call(
            "GET", f"/api/v1/namespaces/{quote(namespace, '')}/pods/{quote(pod, '')}"
        )
        metadata = found.get("metadata") or {}
        if metadata.get("uid") != uid:
            return None
        labels = {
            **(metadata.get("labels") or {}),
            "namespace": namespace,
            "pod": pod,
            "serviceAccount": account,
        }
        return Holder(namespace, account, pod, self._workload_of(metadata), labels)


def _first(extra: Mapping[str, Any], what: str) -> str:
    values = extra.get(_EXTRA + what) or ()
    return str(values[0]) if values else ""


def _valid_for_s(token: str, now_s: float) -> float:
    """Return how long `token`, which the API server calls valid, says itself that it is."""
    try:
        payload = token.split(".")[1]
        claims = orjson.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
        return max(0.0, float(claims["exp"]) - now_s)
    except (IndexError, KeyError, TypeError, ValueError, binascii.Error):
        return 0.0
