"""`outrigger inject`: what goes where, and its statuses. What is put in is tested with the webhook."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest
import yaml

from control_plane.cli.main import main

POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: a, image: a}]}\n"
HOST = POD.replace("spec: {", "spec: {hostNetwork: true, ")


def ran(*arguments: str) -> int:
    """Run the command and return its exit status."""
    with pytest.raises(SystemExit) as ended:
        main(["inject", *arguments])
    return int(ended.value.code or 0)


def test_files_are_printed_as_one_stream(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each document of each file, in order; warnings on stderr."""
    one, two = tmp_path / "one.yaml", tmp_path / "two.yaml"
    one.write_text(POD)
    two.write_text(HOST)
    assert ran("-f", str(one), "-f", str(two), "--sidecar-image", "mine:1") == 0
    told = capsys.readouterr()
    first, second = yaml.safe_load_all(told.out)
    assert first["spec"]["initContainers"][0]["image"] == "mine:1"
    assert second == yaml.safe_load(HOST)
    assert told.err.startswith("warning: Pod/p: no sidecar: ")


def test_stdin_is_a_file_too(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """By a dash."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(POD.encode())))
    assert ran("-f", "-", "--sidecar-proxy-port", "12000") == 0
    assert "http://127.0.0.1:12000/v1" in capsys.readouterr().out


@pytest.mark.parametrize("character", ["\x85", "\u2028", "\u2029", "\x9b"])
def test_values_stay_what_they_are(
    character: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Such as ends of lines that a reader of YAML would make blanks of."""
    pod = yaml.safe_load(POD)
    pod["spec"]["containers"][0]["env"] = [{"name": "A", "value": f"a{character}b"}]
    file = tmp_path / "pod.yaml"
    file.write_text(json.dumps(pod))
    assert ran("-f", str(file)) == 0
    printed = yaml.safe_load(capsys.readouterr().out)
    assert printed["spec"]["containers"][0]["env"][1:] == pod["spec"]["containers"][0]["env"]


@pytest.mark.parametrize("content", [b"a: [", b"\xff", None, b"kind: Pod\napiVersion: v1\n"])
def test_what_cannot_be_read_is_status_1(
    content: bytes | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With a sentence that names the file, and nothing printed that could be applied."""
    file = tmp_path / "odd.yaml"
    if content is not None:
        file.write_bytes(content)
    good = tmp_path / "good.yaml"
    good.write_text(POD)
    assert ran("-f", str(good), "-f", str(file)) == 1
    told = capsys.readouterr()
    assert not told.out
    assert str(file) in told.err
