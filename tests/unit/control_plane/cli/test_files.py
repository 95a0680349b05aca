"""The documents of `-f`."""

import io
from pathlib import Path

import pytest

from control_plane.cli.client import FieldError, Refused
from control_plane.cli.failures import CommandFailed
from control_plane.cli.files import document_id, field_path, placed, read_documents

TWO = (
    "kind: Tier\nmetadata: {name: a}\nspec:\n  priority: 1\n---\nkind: Tier\nmetadata: {name: b}\nspec: {}\n"
)


def test_documents_are_read_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From files and stdin."""
    (tmp_path / "p.yaml").write_text(TWO)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(TWO.replace("name: a", "name: c").encode())))
    raws = read_documents([Path("-"), tmp_path / "p.yaml"])
    assert [document_id(raw.value) for raw in raws] == ["Tier/c", "Tier/b", "Tier/a", "Tier/b"]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "there is no document in the files"),
        ("# nothing\n---\n", "there is no document in the files"),
        ("a: [", "is not YAML"),
        ("kind: Tier\nmetadata: {name: a}\nspec: {priority: .nan}\n", "p.yaml:3: Tier/a: spec.priority"),
        ("kind: Tier\nmetadata: {name: a}\nspec: {1: x}\n", "p.yaml"),
    ],
)
def test_what_cannot_be_sent_is_told(text: str, sentence: str, tmp_path: Path) -> None:
    """With its line, before the server is asked."""
    (tmp_path / "p.yaml").write_text(text)
    with pytest.raises(CommandFailed) as failed:
        read_documents([tmp_path / "p.yaml"])
    assert sentence in str(failed.value)


def test_a_refusal_gets_its_places(tmp_path: Path) -> None:
    """File and line of each field that is named; what is not in the files has none."""
    (tmp_path / "p.yaml").write_text(TWO)
    raws = read_documents([tmp_path / "p.yaml"])
    errors = (
        FieldError("Tier/a", "spec.priority", "must be less"),
        FieldError("Policy/other", "spec", "ties"),
    )
    told = str(placed(Refused(422, "refused", errors), raws))
    assert told.splitlines() == [
        "refused",
        f"  {tmp_path}/p.yaml:4: Tier/a: spec.priority: must be less",
        "  Policy/other: spec: ties",
    ]
    plain = Refused(403, "it needs the role editor")
    assert placed(plain, raws) is plain


@pytest.mark.parametrize(
    "value", [None, 5, [], {}, {"kind": "Tier"}, {"metadata": 5}, {"metadata": {"name": ""}}]
)
def test_what_has_no_name_has_no_id(value: object) -> None:
    """Nothing is found by it."""
    assert document_id(value) == ""


def test_a_path_is_read_as_it_is_written() -> None:
    """Names and numbers."""
    assert field_path("spec.versions[10].weight") == ("spec", "versions", 10, "weight")
    assert field_path("") == ()
