"""Each example is valid by itself, and all of them together; pods pass the strictest standard."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema.validators import Draft202012Validator

from control_plane.resources.documents import check_documents
from control_plane.resources.kinds import KINDS
from control_plane.resources.loading import read_text
from control_plane.webhook.patch import Injection, Outcome, inject
from control_plane.webhook.settings import InjectionSettings, default_image
from tests.harness.chart import CHART
from tests.harness.kubernetes_schemas import check

Object = dict[str, Any]
EXAMPLES = CHART.parent / "examples"
FOLDERS = sorted({path.parent for path in EXAMPLES.rglob("*.yaml")})
GROUP = "outrigger.dev/"
SETTINGS = InjectionSettings("outrigger-push.outrigger-system.svc:9900", own_namespace="outrigger-system")
EACH = pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: str(folder.relative_to(EXAMPLES)))


def loaded(text: str) -> list[Object]:
    """Return the objects of a text of many."""
    return [item for item in yaml.load_all(text, Loader=yaml.CSafeLoader) if item]


def objects(folders: Iterable[Path]) -> list[Object]:
    """Return every object of some folders, in the order in which `kubectl apply -f` takes them."""
    files = [path for folder in folders for path in sorted(folder.glob("*.yaml"))]
    return [item for path in files for item in loaded(path.read_text("utf-8"))]


def ours(found: Iterable[Object]) -> list[Object]:
    """Return the custom resources of some objects."""
    return [item for item in found if item["apiVersion"].startswith(GROUP)]


def assert_valid_policy(found: Iterable[Object]) -> None:
    """The custom resources load as one set of documents, and each has an effect today."""
    text = yaml.safe_dump_all(ours(found))
    assert check_documents(read_text(text.encode(), "example")).notices == ()


@EACH
def test_policy_is_valid_by_itself(folder: Path) -> None:
    """References lead to documents of the same folder."""
    found = objects([folder])
    assert ours(found)
    assert_valid_policy(found)


def test_all_examples_can_be_applied_to_one_cluster() -> None:
    """No name twice, no contradiction; every kind appears."""
    found = objects(FOLDERS)
    names = [(item["kind"], item["metadata"].get("namespace"), item["metadata"]["name"]) for item in found]
    assert len(names) == len(set(names))
    assert_valid_policy(found)
    assert {item["kind"] for item in ours(found)} == set(KINDS)


@EACH
def test_custom_resources_meet_their_definitions(folder: Path) -> None:
    """By the schemas that the API server has."""
    schemas = {}
    for path in (CHART / "crds").glob("*.yaml"):
        (definition,) = loaded(path.read_text("utf-8"))
        (known,) = definition["spec"]["versions"]
        schemas[definition["spec"]["names"]["kind"]] = known["schema"]["openAPIV3Schema"]
    for item in ours(objects([folder])):
        Draft202012Validator(schemas[item["kind"]]).validate(item)
        assert "namespace" not in item["metadata"]


@EACH
def test_the_rest_is_valid_and_stays_in_its_namespace(folder: Path) -> None:
    """The namespace comes first and is opted in; pods pass the standard that it enforces."""
    first, *rest = [item for item in objects([folder]) if not item["apiVersion"].startswith(GROUP)]
    assert first["kind"] == "Namespace"
    assert first["metadata"]["labels"]["outrigger.dev/inject"] == "enabled"
    check(first)
    for item in rest:
        check(item)
        assert item["metadata"]["namespace"] == first["metadata"]["name"]
        if item["kind"] == "Deployment":
            template = item["spec"]["template"]
            assert template["spec"]["securityContext"]["runAsNonRoot"] is True
            for container in template["spec"]["containers"]:
                assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
                assert container["resources"]["limits"]


@EACH
def test_applications_get_a_sidecar_and_providers_none(folder: Path) -> None:
    """Who is called, does not call. What the injector makes of an application is a valid pod."""
    found = objects([folder])
    services = {item["metadata"]["name"] for item in found if item["kind"] == "Service"}
    injected = set()
    for item in found:
        if item["kind"] != "Deployment":
            continue
        outcome = inject(item["spec"]["template"], item["metadata"]["namespace"], SETTINGS)
        if isinstance(outcome, Injection):
            injected.add(item["metadata"]["name"])
            item["spec"]["template"] = outcome.pod
            check(item)
            (container,) = outcome.pod["spec"]["containers"]
            assert container["env"] == [{"name": "OPENAI_BASE_URL", "value": "http://127.0.0.1:10000/v1"}]
        else:
            assert outcome.outcome is Outcome.OPTED_OUT
    assert injected
    assert not injected & services


def test_images_are_of_this_version() -> None:
    """So that what a guide has built and loaded is found."""
    images = {
        container["image"]
        for item in objects(FOLDERS)
        if item["kind"] == "Deployment"
        for container in item["spec"]["template"]["spec"]["containers"]
    }
    assert {image for image in images if image.startswith("outrigger")} == {default_image()}


@EACH
def test_backends_lead_to_services_of_the_example(folder: Path) -> None:
    """By their full names, since sidecars stand in any namespace."""
    found = objects([folder])
    urls = {
        f"http://{item['metadata']['name']}.{item['metadata']['namespace']}.svc.cluster.local:{port['port']}/v1"
        for item in found
        if item["kind"] == "Service"
        for port in item["spec"]["ports"]
    }
    assert {item["spec"]["url"] for item in found if item["kind"] == "Backend"} == urls


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")
@pytest.mark.parametrize("cluster", ["staging", "production"])
def test_clusters_are_the_base_with_their_own_values(cluster: str) -> None:
    """Each renders to valid policy."""
    folder = EXAMPLES / "gitops" / "clusters" / cluster
    rendered = subprocess.run(
        ["kubectl", "kustomize", str(folder)], capture_output=True, text=True, check=True, timeout=60
    )
    found = loaded(rendered.stdout)
    assert len(found) == len(objects([EXAMPLES / "gitops" / "base"]))
    assert_valid_policy(found)
