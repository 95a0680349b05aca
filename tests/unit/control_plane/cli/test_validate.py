"""`outrigger validate`."""

import io
import json
from pathlib import Path

import pytest

from control_plane.cli.main import main
from control_plane.resources.unbuilt import UNBUILT

GOOD = """\
kind: Backend
metadata: {name: b}
spec: {url: 'http://h/v1'}
---
kind: Model
metadata: {name: m}
spec: {versions: [{name: v, backend: b}, {name: w, backend: b}]}
---
kind: Release
metadata: {name: r}
spec: {model: m, from: v, to: w, shadow: 0.1}
"""
BAD = "kind: Backend\nmetadata: {name: b}\nspec: {urll: 'http://h/v1'}\n"


def run(*arguments: str) -> int:
    """Run `outrigger validate` and return its exit status."""
    with pytest.raises(SystemExit) as ended:
        main(["validate", *arguments])
    return int(ended.value.code or 0)


def test_good_documents_end_with_zero(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What has no effect yet is a warning on stderr, and no error."""
    monkeypatch.setitem(UNBUILT, "Release", frozenset({("shadow",)}))
    (tmp_path / "p.yaml").write_text(GOOD)
    assert run("-f", str(tmp_path / "p.yaml")) == 0
    captured = capsys.readouterr()
    assert captured.out == "valid: 3 documents\n"
    assert "Release/r: spec.shadow: is accepted but has no effect yet" in captured.err


def test_bad_documents_end_with_one_and_every_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each error names file and line, document, field and what to do."""
    (tmp_path / "p.yaml").write_text(BAD)
    assert run("-f", str(tmp_path / "p.yaml")) == 1
    lines = capsys.readouterr().err.splitlines()
    assert lines == [
        f"error: {tmp_path}/p.yaml:3: Backend/b: spec.url: is required",
        f'error: {tmp_path}/p.yaml:3: Backend/b: spec.urll: is no field of Backend; did you mean "url"?',
    ]


@pytest.mark.parametrize(("text", "status", "documents"), [(GOOD, 0, 3), (BAD, 1, 0), ("", 0, 0)])
def test_json_output_is_for_programs(
    text: str, status: int, documents: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Errors and warnings as document, field, message; stdout holds nothing else."""
    (tmp_path / "p.yaml").write_text(text)
    assert run("-f", str(tmp_path / "p.yaml"), "-o", "json") == status
    report = json.loads(capsys.readouterr().out)
    assert (report["valid"], report["documents"]) == (status == 0, documents)
    assert bool(report["errors"]) is (status == 1)
    for problem in report["errors"] + report["warnings"]:
        assert set(problem) == {"document", "field", "message"}


def test_a_hyphen_reads_stdin(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """`-f -` takes what is piped in."""
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(BAD.encode())))
    assert run("-f", "-") == 1
    assert "stdin:3: Backend/b" in capsys.readouterr().err


def test_a_folder_is_checked_as_one_set(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A file may name what another one has, wherever below the folder it is; two may not be the same."""
    backend, model, release = GOOD.split("---\n")
    (tmp_path / "teams").mkdir()
    for name, text in (("teams/m.yml", model), ("b.yaml", backend), ("r.yaml", release)):
        (tmp_path / name).write_text(text)
    assert run("-f", str(tmp_path)) == 0
    assert capsys.readouterr().out == "valid: 3 documents\n"
    (tmp_path / "teams" / "twice.yaml").write_text(backend)
    assert run("-f", str(tmp_path)) == 1
    assert (
        f"{tmp_path}/teams/twice.yaml:2: Backend/b: metadata.name: is defined twice"
        in capsys.readouterr().err
    )


def test_an_absent_file_is_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It says what to do."""
    assert run("-f", str(tmp_path / "absent.yaml")) == 1
    assert "absent.yaml: cannot be read (no such file or directory)" in capsys.readouterr().err
