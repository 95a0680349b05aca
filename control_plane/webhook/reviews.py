"""One AdmissionReview in, one out (pure): bytes of JSON both ways.

https://kubernetes.io/docs/reference/access-authn-authz/extensible-admission-controllers
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import orjson

from control_plane.webhook.patch import Injection, Outcome, Skipped, inject
from control_plane.webhook.settings import InjectionSettings
from control_plane.webhook.shape import NotAPodError, check_pod

API_VERSION: Final = "admission.k8s.io/v1"
KIND: Final = "AdmissionReview"
MAX_WARNING: Final = 250
"""Longer ones may be cut by the API server, where it likes."""


class MalformedReviewError(ValueError):
    """The body is no review that can be answered; the message says why in one sentence."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What goes back. `outcome` is None where nothing was to be decided; a `dry_run` changes nothing."""

    body: bytes
    outcome: Outcome | None
    namespace: str
    reason: str = ""
    dry_run: bool = False


def review(body: bytes, settings: InjectionSettings) -> Answer:
    """Answer the review in `body`. Pods are let in, with or without a pair; nothing is ever denied.

    Raises:
        MalformedReviewError: it is no v1 review, or of something that is no pod.
    """
    request = _request(body)
    uid = request["uid"]
    namespace = request.get("namespace") or _namespace_of(request.get("object"))
    dry_run = request.get("dryRun") is True
    if not _is_of_a_new_pod(request):
        return Answer(_answered({"uid": uid, "allowed": True}), None, namespace, dry_run=dry_run)
    try:
        decided = inject(check_pod(request.get("object")), namespace, settings)
    except NotAPodError as error:
        raise MalformedReviewError(f"the review's object is no pod: {error}") from None
    response: dict[str, Any] = {"uid": uid, "allowed": True}
    if isinstance(decided, Injection) and decided.patch:
        response["patchType"] = "JSONPatch"
        response["patch"] = base64.b64encode(orjson.dumps(decided.patch)).decode("ascii")
    if decided.warnings:
        response["warnings"] = [warning[:MAX_WARNING] for warning in decided.warnings]
    reason = decided.reason if isinstance(decided, Skipped) else ""
    return Answer(_answered(response), decided.outcome, namespace, reason, dry_run)


def _namespace_of(pod: object) -> str:
    """Return what a pod says itself, for requests that do not say it."""
    metadata = pod.get("metadata") if isinstance(pod, Mapping) else None
    own = metadata.get("namespace") if isinstance(metadata, Mapping) else None
    return own if isinstance(own, str) else ""


def _is_of_a_new_pod(request: Mapping[str, Any]) -> bool:
    """Whether a pod is being made; what a request leaves out is taken for that."""
    kind = request.get("kind") or {}
    of_a_pod = kind.get("kind", "Pod") == "Pod" and not kind.get("group") and not request.get("subResource")
    return of_a_pod and request.get("operation", "CREATE") == "CREATE"


def _answered(response: Mapping[str, Any]) -> bytes:
    return orjson.dumps({"apiVersion": API_VERSION, "kind": KIND, "response": response})


def _request(body: bytes) -> Mapping[str, Any]:
    """Return the request of a review, its own fields checked."""
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError:
        raise MalformedReviewError("the body is no JSON") from None
    if not isinstance(document, dict) or document.get("kind") != KIND:
        raise MalformedReviewError(f"the body is no {KIND}")
    if document.get("apiVersion") != API_VERSION:
        raise MalformedReviewError(f"the review is not of {API_VERSION}")
    request = document.get("request")
    if not isinstance(request, dict):
        raise MalformedReviewError("the review has no request")
    uid = request.get("uid")
    if not isinstance(uid, str) or not uid:
        raise MalformedReviewError("the review's request has no uid")
    for name, form in (("kind", Mapping), ("namespace", str), ("operation", str), ("subResource", str)):
        if not isinstance(request.get(name), form | None):
            raise MalformedReviewError(f"the review's request.{name} is of another type")
    return request
