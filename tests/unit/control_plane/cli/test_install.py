"""`outrigger install`."""

import json
import re
from importlib.metadata import version
from pathlib import Path

import pytest
import yaml

from control_plane.cli import install
from tests.harness.chart import install_text
from tests.harness.kubernetes_schemas import check
from tests.unit.control_plane.cli.conftest import Run

PACKAGED = Path(install.__file__).with_name("install.yaml")


def test_the_package_carries_the_chart_as_it_is() -> None:
    """`make manifests` writes it again."""
    assert PACKAGED.read_text("utf-8") == install_text()


def test_manifests_can_be_applied_in_their_order(run: Run) -> None:
    """Definitions and namespace first, the webhook's registration last; all valid and in one namespace."""
    status, out, err = run("install", "--dry-run", "--namespace", "llm")
    assert (status, err) == (0, "")
    items = list(yaml.load_all(out, Loader=yaml.CSafeLoader))
    kinds = [item["kind"] for item in items]
    assert kinds[:7] == ["CustomResourceDefinition"] * 7
    assert kinds[7] == "Namespace"
    assert kinds[-1] == "MutatingWebhookConfiguration"
    assert kinds.index("ServiceAccount") < kinds.index("Deployment")
    for item in items[7:]:
        check(item)
        assert item["metadata"].get("namespace", "llm") == "llm"
    assert not re.search(r"(namespace|image)-of-", out)


def test_images_are_told(run: Run) -> None:
    """By default this version; the control plane injects the same ones."""
    assert f'image: "outrigger:{version("outrigger-llm")}"' in run("install", "--dry-run")[1]
    digest = f"r.example/outrigger@sha256:{'0' * 64}"
    out = run("install", "--dry-run", "--image", digest, "--envoy-image", "r.example/envoy:1")[1]
    assert out.count(digest) == 3
    assert out.count("r.example/envoy:1") == 1


def test_each_print_has_a_token_of_its_own(run: Run) -> None:
    """In a Secret that control plane and controller read, and nowhere else."""
    tokens = set()
    for _ in range(2):
        out = run("install", "--dry-run", "-o", "json")[1]
        (secret,) = (item for item in json.loads(out)["items"] if "stringData" in item)
        token = secret["stringData"]["token"]
        assert len(token) >= 40
        assert out.count(token) == 1
        tokens.add(token)
    assert len(tokens) == 2


@pytest.mark.parametrize(
    "options",
    [
        (),
        ("--dry-run", "--namespace", "Nope"),
        ("--dry-run", "--image", "a b"),
        ("--dry-run", "--envoy-image", 'x"\ny'),
        ("--dry-run", "-o", "text"),
    ],
)
def test_wrong_usage_ends_with_two(options: tuple[str, ...], run: Run) -> None:
    """Nothing is printed; it never applies anything itself."""
    status, out, _ = run("install", *options)
    assert (status, out) == (2, "")
