"""Reading files of documents."""

import json
import time
from pathlib import Path

import pytest

from control_plane.resources.loading import MAX_BYTES, read_files, read_text
from control_plane.resources.problems import InvalidDocumentsError


def refusal(content: bytes, source: str = "policy.yaml") -> str:
    """Return the sentence by which `content` is refused."""
    with pytest.raises(InvalidDocumentsError) as error:
        read_text(content, source)
    assert len(error.value.problems) == 1
    return error.value.problems[0].sentence()


def test_many_documents_are_read_with_their_places() -> None:
    """Each document, and each field in it, knows its line."""
    first, second = read_text(b"kind: A\nspec:\n  x: [1, 2]\n---\n\nkind: B\n", "policy.yaml")
    assert first.value == {"kind": "A", "spec": {"x": [1, 2]}}
    assert first.place(("spec", "x", 1)) == "policy.yaml:3"
    assert second.place(("kind",)) == "policy.yaml:6"
    assert second.place(("spec", "nowhere")) == "policy.yaml:6"


def test_a_list_is_a_list_of_documents() -> None:
    """JSON and YAML lists hold one document an item."""
    for content, name in (
        (b'[{"kind": "A"}, {"kind": "B"}]', "p.json"),
        (b"- kind: A\n- kind: B\n", "p.yaml"),
    ):
        assert [raw.value["kind"] for raw in read_text(content, name)] == ["A", "B"]


@pytest.mark.parametrize("content", [b"", b"---\n---\n", b"# nothing\n"])
def test_empty_documents_are_left_out(content: bytes) -> None:
    """Separators and comments alone are no document."""
    assert read_text(content, "policy.yaml") == []


def test_dates_stay_text() -> None:
    """An API version written like a date is a version."""
    assert read_text(b"v: 2024-06-01\nw: !!timestamp 2024-06-01\n", "p")[0].value == {
        "v": "2024-06-01",
        "w": "2024-06-01",
    }


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"a: 1\nb: 2\na: 3\n", 'policy.yaml:3: policy.yaml: has the key "a" twice'),
        (b"x: {a: 1, a: 2}", 'the key "a" twice'),
        (b"a: [1, 2", "is not YAML"),
        (b"a: *b", "undefined alias"),
        (b"!!python/object/apply:os.system [ls]", "is not YAML"),
        (b"!!int x", "a value that YAML cannot read"),
        (b"!!bool x", "a value that YAML cannot read"),
        (b"? [a]\n: b", "unhashable"),
        (b"a: \x1b[2J", "control characters"),
        (b"\xff\xfe\x00", "not UTF-8"),
        (b"a: &a [*a]", "refers to itself"),
        (b"[" * 100 + b"]" * 100, "deep"),
        (b"[" * 100_000, "nesting"),
    ],
)
def test_broken_yaml_is_refused_with_its_reason(content: bytes, reason: str) -> None:
    """Anything but plain, finite data is one sentence with a place."""
    assert reason in refusal(content)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b'{"a": 1, "a": 2}', "twice"),
        (b"[" * 100_000, "deep"),
        (b'{"a"', "policy.json:1: policy.json: is not JSON"),
    ],
)
def test_broken_json_is_refused_with_its_reason(content: bytes, reason: str) -> None:
    """JSON gets the same care."""
    assert reason in refusal(content, "policy.json")


def test_an_alias_bomb_is_refused_at_once() -> None:
    """Nine to the fifteenth values in a kilobyte cost no time and no memory."""
    levels = [b"a: &a [1, 1, 1, 1, 1, 1, 1, 1, 1]"]
    for char in range(ord("a"), ord("p")):
        items = b", ".join([b"*%c" % char] * 9)
        levels.append(b"%c: &%c [%s]" % (char + 1, char + 1, items))
    began = time.monotonic()
    assert "aliases" in refusal(b"\n".join(levels))
    assert time.monotonic() - began < 2


def test_plain_aliases_and_merges_work() -> None:
    """Anchors are there to be used."""
    assert read_text(b"a: &a {x: 1}\nb: {<<: *a, y: 2}\n", "p")[0].value["b"] == {"x": 1, "y": 2}


def test_a_file_too_large_is_refused(tmp_path: Path) -> None:
    """The bound holds before anything is parsed."""
    path = tmp_path / "large.yaml"
    path.write_bytes(b"#" * (MAX_BYTES + 1))
    with pytest.raises(InvalidDocumentsError, match="larger than"):
        read_files([path])


def test_every_unreadable_file_is_named(tmp_path: Path) -> None:
    """Two slips are told at once."""
    (tmp_path / "broken.yaml").write_bytes(b"a: [")
    with pytest.raises(InvalidDocumentsError) as error:
        read_files([tmp_path / "absent.yaml", tmp_path / "broken.yaml"])
    sentences = [problem.sentence() for problem in error.value.problems]
    assert "absent.yaml: cannot be read (no such file or directory)" in sentences[0]
    assert "is not YAML" in sentences[1]


def test_a_folder_stands_for_its_files_of_documents(tmp_path: Path) -> None:
    """YAML and JSON of all folders below, by path; what is hidden and linked folders are left out."""
    (tmp_path / "teams" / "shop").mkdir(parents=True)
    (tmp_path / ".git").mkdir()
    (tmp_path / "linked").symlink_to(tmp_path / "teams")
    for name in ("b.yml", "a.yaml", "teams/shop/c.json", "README.md", ".git/x.yaml", ".hidden.yaml"):
        (tmp_path / name).write_text(json.dumps({"kind": "Tier", "metadata": {"name": name}}))
    (tmp_path / "d.yaml").symlink_to(tmp_path / "a.yaml")
    read = [Path(raw.source).relative_to(tmp_path) for raw in read_files([tmp_path])]
    assert list(map(str, read)) == ["a.yaml", "b.yml", "d.yaml", "teams/shop/c.json"]


def test_a_folder_without_documents_is_a_slip(tmp_path: Path) -> None:
    """It is named beside the files that are wrong in another folder."""
    (tmp_path / "empty").mkdir()
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "broken.yaml").write_bytes(b"a: [")
    with pytest.raises(InvalidDocumentsError) as error:
        read_files([tmp_path / "empty", tmp_path / "full"])
    sentences = [problem.sentence() for problem in error.value.problems]
    assert sentences[0] == f"{tmp_path}/empty: holds no .yaml, .yml or .json file"
    assert sentences[1].startswith(f"{tmp_path}/full/broken.yaml:")


def test_a_hyphen_is_standard_input() -> None:
    """`-f -` reads what was piped in."""
    (raw,) = read_files([Path("-")], b"kind: Pin\n")
    assert raw.place(("kind",)) == "stdin:1"


def test_a_number_of_thousands_of_digits_is_refused() -> None:
    """Python would not read it, and nobody means it."""
    content = b'{"kind": ' + b"9" * 5_000 + b"}"
    assert "number that is too long" in refusal(content, "p.json")
    assert "value that YAML cannot read" in refusal(content, "p.yaml")
