"""Manifests with pods in them."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from control_plane.webhook.manifests import UnreadableManifestError, inject_manifests
from tests.harness.kubernetes_schemas import check
from tests.unit.control_plane.webhook.pods import SETTINGS

TEMPLATE: dict[str, Any] = {
    "metadata": {"labels": {"a": "b"}},
    "spec": {"restartPolicy": "Always", "containers": [{"name": "a", "image": "a"}]},
}
ONCE = {**TEMPLATE, "spec": {**TEMPLATE["spec"], "restartPolicy": "Never"}}
SELECTOR = {"matchLabels": {"a": "b"}}


def workload(api_version: str, kind: str, spec: dict[str, Any]) -> dict[str, Any]:
    """Return a document called shop."""
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": "shop"}, "spec": spec}


WORKLOADS = [
    workload("v1", "Pod", TEMPLATE["spec"]),
    workload("v1", "ReplicationController", {"template": TEMPLATE}),
    workload("apps/v1", "Deployment", {"selector": SELECTOR, "template": TEMPLATE}),
    workload("apps/v1", "ReplicaSet", {"selector": SELECTOR, "template": TEMPLATE}),
    workload("apps/v1", "DaemonSet", {"selector": SELECTOR, "template": TEMPLATE}),
    workload("apps/v1", "StatefulSet", {"selector": SELECTOR, "serviceName": "s", "template": TEMPLATE}),
    workload("batch/v1", "Job", {"template": ONCE}),
    workload("batch/v1", "CronJob", {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": ONCE}}}),
]


def pod_spec(document: dict[str, Any]) -> dict[str, Any]:
    """Return the spec of the pods that a document makes."""
    found = document
    for place in ("jobTemplate", "spec", "template", "spec"):
        found = found.get(place, found)
    return found.get("spec", found) if "containers" not in found else found


@pytest.mark.parametrize("document", WORKLOADS, ids=lambda document: document["kind"])
def test_every_kind_that_makes_pods_is_injected(document: dict[str, Any]) -> None:
    """The pair is in its pods, called after the document, and Kubernetes' schemas take the whole."""
    manifest = inject_manifests(yaml.safe_dump(document), SETTINGS)
    result = yaml.safe_load(manifest.text)
    assert (manifest.injected, manifest.warnings) == (1, ())
    check(result)
    assert '"outrigger-envoy"' in json.dumps(result)
    words = json.dumps(result).partition('"--workload", ')[2]
    assert words.startswith('"shop"')


def test_other_documents_stay_as_they_are_written() -> None:
    """Comments, order and quotes of what makes no pods; kinds of that name in other groups too."""
    text = (
        "# one\nkind: Service  # two\napiVersion: v1\n---\n# three\n"
        "apiVersion: serving.knative.dev/v1\nkind: Deployment\nspec: {template: 1}\n---\n--- # four\n[1]\n"
    )
    assert inject_manifests(text, SETTINGS).text == text
    assert not inject_manifests("# nothing but this\n", SETTINGS).injected
    assert not inject_manifests("", SETTINGS).text


def test_lists_and_streams_are_injected_item_by_item() -> None:
    """What stands between pods stays there."""
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}}
    listed = {"apiVersion": "v1", "kind": "List", "items": [service, WORKLOADS[0], WORKLOADS[2]]}
    text = f"{yaml.safe_dump(listed)}---\n{yaml.safe_dump(service)}---\n{json.dumps(WORKLOADS[6])}\n"
    manifest = inject_manifests(text, SETTINGS)
    documents = list(yaml.safe_load_all(manifest.text))
    assert manifest.injected == 3
    assert [document["kind"] for document in documents] == ["List", "Service", "Job"]
    assert documents[0]["items"][0] == service
    assert documents[1] == service


def test_what_is_injected_already_stays() -> None:
    """The command's own output goes through unchanged."""
    once = inject_manifests(yaml.safe_dump(WORKLOADS[2]), SETTINGS).text
    again = inject_manifests(once, SETTINGS)
    assert (again.text, again.injected) == (once, 0)


def test_pods_that_are_left_alone_are_told() -> None:
    """By kind and name, with the reason, those that opted out too."""
    documents = [
        workload("v1", "Pod", {**TEMPLATE["spec"], "hostNetwork": True}),
        {**WORKLOADS[0], "metadata": {"name": "out", "labels": {"outrigger.dev/inject": "disabled"}}},
        {**WORKLOADS[0], "metadata": {"name": "sys", "namespace": "kube-system"}},
    ]
    text = yaml.safe_dump_all(documents)
    manifest = inject_manifests(text, SETTINGS)
    assert (manifest.text, manifest.injected) == (text, 0)
    assert [warning.split(":")[0] for warning in manifest.warnings] == ["Pod/shop", "Pod/out", "Pod/sys"]
    assert inject_manifests(yaml.safe_dump(WORKLOADS[0]), SETTINGS, "kube-x").warnings


@pytest.mark.parametrize(
    ("scalar", "value"),
    [
        ("12:30", "12:30"),
        ("2024-01-02", "2024-01-02"),
        ("0o17", 15),
        ("1e3", 1000.0),
        ("'1e3'", "1e3"),
        ("'y'", "y"),
        ("0x1F", 31),
        ("yes", True),
        ("~", None),
        ("1.5.0", "1.5.0"),
    ],
)
def test_values_are_read_and_written_as_kubernetes_does(scalar: str, value: object) -> None:
    """A text stays a text and a number a number, to a reader of YAML 1.1 as to one of 1.2."""
    text = yaml.safe_dump(WORKLOADS[0]) + f"extra: {scalar}\n"
    result = yaml.safe_load(inject_manifests(text, SETTINGS).text)["extra"]
    assert result == value
    assert type(result) is type(value)


def test_anchors_are_written_out() -> None:
    """A list that two containers share gets the variable in both, once each."""
    text = (
        "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n  containers:\n"
        "  - {name: a, image: a, env: &env [{name: X, value: x}]}\n  - {name: b, image: b, env: *env}\n"
    )
    containers = yaml.safe_load(inject_manifests(text, SETTINGS).text)["spec"]["containers"]
    names = [[item["name"] for item in container["env"]] for container in containers]
    assert names == [["OPENAI_BASE_URL", "X"]] * 2


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a: [", "no YAML"),
        ("a: !!python/object:os.system {}", "no YAML"),
        ("apiVersion: v1\nkind: Pod\nmetadata: {name: p}\n", "Pod/p cannot be injected: spec must be"),
        ("apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d}\nspec: {}\n", "Deployment/d cannot"),
        ("apiVersion: apps/v1\nkind: Deployment\nspec: [1]\n", "Deployment/ cannot"),
    ],
)
def test_what_cannot_be_read_is_told(text: str, told: str) -> None:
    """One sentence with the place."""
    with pytest.raises(UnreadableManifestError, match=told):
        inject_manifests(text, SETTINGS)
