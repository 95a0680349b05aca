"""The definitions as a whole, and that the files of the chart are current."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from control_plane.crds.definitions import CATEGORY, GROUP, SHORT_NAMES, definition, files
from control_plane.resources.plurals import PLURAL_OF

CHART = Path(__file__).parents[4] / "k8s" / "chart" / "crds"


def test_the_charts_files_are_current() -> None:
    """`make crds` would change nothing."""
    kept = {path.name: path.read_text(encoding="utf-8") for path in CHART.iterdir()}
    assert kept == files()


@pytest.mark.parametrize("kind", PLURAL_OF)
def test_a_definition_is_of_the_whole_cluster_with_status_and_columns(kind: str) -> None:
    """Cluster-scoped, in our category, with the two conditions as columns and a status of its own."""
    written = definition(kind)
    spec = written["spec"]
    (version,) = spec["versions"]
    assert written["metadata"]["name"] == f"{PLURAL_OF[kind]}.{GROUP}"
    assert spec["scope"] == "Cluster"
    assert spec["names"]["categories"] == [CATEGORY]
    assert version["subresources"] == {"status": {}}
    columns = {column["name"]: column["jsonPath"] for column in version["additionalPrinterColumns"]}
    assert columns["Accepted"] == '.status.conditions[?(@.type=="Accepted")].status'
    assert columns["Programmed"] == '.status.conditions[?(@.type=="Programmed")].status'


def test_short_names_are_different() -> None:
    """No two kinds share a short name, and none is a kind's own name."""
    assert len(set(SHORT_NAMES.values())) == len(PLURAL_OF)
    assert not set(SHORT_NAMES.values()) & set(PLURAL_OF.values())


def test_files_have_no_anchors() -> None:
    """What stands twice is written twice, so that each file reads by itself."""
    for name, text in files().items():
        assert "&id" not in text, name
        assert yaml.safe_load(text)["kind"] == "CustomResourceDefinition"


def test_no_key_is_a_boolean_to_kubernetes() -> None:
    """Its parser reads a bare `n` as false, as YAML 1.1 has it."""
    text = files()["outrigger.dev_policies.yaml"]
    assert '"n":' in text
    assert " n:" not in text
