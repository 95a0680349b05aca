"""AdmissionReviews: bytes in, bytes out."""

from __future__ import annotations

import base64
import json
from typing import Any

import jsonpatch
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from control_plane.webhook.patch import Outcome
from control_plane.webhook.reviews import MalformedReviewError, review
from tests.unit.control_plane.webhook.pods import SETTINGS, pod


def asked(pod: object, **request: Any) -> dict[str, Any]:
    """Return the review of a pod that is made."""
    return {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "u-1",
            "kind": {"group": "", "version": "v1", "kind": "Pod"},
            "resource": {"group": "", "version": "v1", "resource": "pods"},
            "namespace": "shop",
            "operation": "CREATE",
            "dryRun": False,
            "object": pod,
            **request,
        },
    }


def answered(document: object) -> dict[str, Any]:
    """Return the response to a review."""
    told = json.loads(review(orjson.dumps(document), SETTINGS).body)
    assert (told["apiVersion"], told["kind"]) == ("admission.k8s.io/v1", "AdmissionReview")
    return dict(told["response"])


def test_a_pod_gets_its_patch() -> None:
    """Base64 of a JSON Patch that applies, under the request's uid."""
    original = pod()
    response = answered(asked(original))
    assert (response["uid"], response["allowed"], response["patchType"]) == ("u-1", True, "JSONPatch")
    result = jsonpatch.apply_patch(original, json.loads(base64.b64decode(response["patch"])))
    assert result["spec"]["initContainers"][0]["name"] == "outrigger-processor"


def test_a_generated_name_and_an_empty_namespace() -> None:
    """The namespace is the request's; the pod may have neither name nor namespace yet."""
    made = pod()
    made["metadata"] = {"generateName": "shop-", "namespace": ""}
    assert "patch" in answered(asked(made))
    assert "patch" not in answered(asked(made, namespace="kube-system"))


def test_a_pod_that_is_not_injected_is_let_in_with_a_warning() -> None:
    """Never denied; the reason reaches whoever makes it."""
    response = answered(asked(pod({"hostNetwork": True})))
    assert response["allowed"] is True
    assert "patch" not in response
    assert "host's network" in response["warnings"][0]
    assert all(len(warning) <= 250 for warning in response["warnings"])


@pytest.mark.parametrize(
    "request_fields",
    [
        {"operation": "UPDATE"},
        {"operation": "DELETE", "object": None},
        {"kind": {"group": "apps", "version": "v1", "kind": "Deployment"}},
        {"subResource": "ephemeralcontainers"},
    ],
    ids=repr,
)
def test_what_is_no_new_pod_is_let_in(request_fields: dict[str, Any]) -> None:
    """A registration that is too wide does no harm."""
    assert answered(asked(pod(), **request_fields)) == {"uid": "u-1", "allowed": True}


def test_a_request_may_leave_out_what_the_pod_says() -> None:
    """Kind, operation and namespace of a review that is written by hand."""
    made = pod(namespace="kube-system")
    bare = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}
    assert "patch" in answered({**bare, "request": {"uid": "u-1", "object": pod()}})
    assert "patch" not in answered({**bare, "request": {"uid": "u-1", "object": made}})


def test_a_dry_run_is_told_apart() -> None:
    """Its patch is the same; it is not to be counted."""
    told = review(orjson.dumps(asked(pod(), dryRun=True)), SETTINGS)
    assert (told.dry_run, told.outcome) == (True, Outcome.INJECTED)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"\xff",
        b"{}",
        b"[" * 2000,
        orjson.dumps({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1beta1"}),
        orjson.dumps({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1"}),
        orjson.dumps(asked(pod(), uid="")),
        orjson.dumps(asked(pod(), uid=1)),
        orjson.dumps(asked(pod(), kind="Pod")),
        orjson.dumps(asked(pod(), namespace=1)),
        orjson.dumps(asked(None)),
        orjson.dumps(
            {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": {"uid": "u"}}
        ),
        orjson.dumps(asked({"spec": {}})),
    ],
)
def test_malformed_reviews_are_told_in_one_sentence(body: bytes) -> None:
    """Each names what is off; none is an error of ours."""
    with pytest.raises(MalformedReviewError, match=r"^the "):
        review(body, SETTINGS)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 70000) | st.sampled_from(["", "a", "windows", "disabled"]),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(
                [
                    "containers",
                    "initContainers",
                    "env",
                    "name",
                    "ports",
                    "containerPort",
                    "volumes",
                    "os",
                    "httpGet",
                ]
            ),
            inner,
            max_size=3,
        )
    ),
    max_leaves=8,
)


@given(_JSON, st.dictionaries(st.sampled_from(["labels", "annotations", "ownerReferences"]), _JSON))
@settings(max_examples=150, deadline=None)
def test_nothing_that_is_sent_breaks_it(spec: Any, metadata: Any) -> None:
    """Any JSON in the place of a pod is answered or refused by a sentence."""
    odd = asked({"kind": "Pod", "metadata": metadata, "spec": spec})
    try:
        review(orjson.dumps(odd), SETTINGS)
    except MalformedReviewError as error:
        assert str(error)
