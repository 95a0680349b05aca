"""What a start does with its files."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import structlog
from structlog.testing import capture_logs

from control_plane.registry.values import Actor, Applied, DocumentKey, Head, StoredDocument
from control_plane.resources.demo import demo_documents
from control_plane.resources.documents import Documents
from control_plane.resources.loading import RawDocument
from control_plane.resources.problems import InvalidDocumentsError, Problem
from control_plane.settings import ControlPlaneSettings
from control_plane.startup import apply_at_start

DOCUMENTS = """
kind: Backend
metadata: {name: b}
spec: {url: "http://127.0.0.1:1/v1"}
---
kind: Model
metadata: {name: m}
spec: {versions: [{name: v, backend: b}]}
"""


class Book:
    """A registry that holds nothing, or something, and writes down what it is given."""

    def __init__(self, *stored: tuple[str, str]) -> None:
        self.head = Head(0, dict.fromkeys(stored), Documents(), {}, "", {})  # type: ignore[arg-type]
        self.applied: list[tuple[list[str], str, str]] = []
        self.without: set[DocumentKey] = set()
        self.warnings: tuple[Problem, ...] = ()
        self.refusing: tuple[Problem, ...] = ()

    async def apply(
        self,
        raws: Sequence[RawDocument],
        actor: Actor,
        *,
        dry_run: bool = False,
        action: str = "apply",
        without: Collection[DocumentKey] = (),
    ) -> Applied:
        """Write it down, or refuse it."""
        if self.refusing:
            raise InvalidDocumentsError(self.refusing)
        self.without = set(without)
        names = [f"{raw.value['kind']}/{raw.value['metadata']['name']}" for raw in raws]
        self.applied.append((names, actor.name, action))
        return Applied(1, (), self.warnings)


def settings(tmp_path: Path, text: str = DOCUMENTS) -> ControlPlaneSettings:
    """Return settings with one file."""
    path = tmp_path / "policy.yaml"
    path.write_text(text)
    return ControlPlaneSettings("127.0.0.1", 0, "unix:/x", data_dir=tmp_path, files=(path,))


async def start(book: Book, given: ControlPlaneSettings) -> str:
    """Start."""
    return await apply_at_start(book, given, None, structlog.get_logger())


async def test_files_are_applied_whatever_is_stored(tmp_path: Path) -> None:
    """In the name of the files."""
    for book in (Book(), Book(("Backend", "b"))):
        await start(book, settings(tmp_path))
        assert book.applied == [(["Backend/b", "Model/m"], "files", "start")]


async def test_what_has_no_effect_yet_is_told(tmp_path: Path) -> None:
    """In the log, unless somebody else tells it."""
    book, given = Book(), settings(tmp_path)
    book.warnings = (Problem("Release/r", "spec.f", "is accepted but has no effect yet"),)
    for shown in (True, False):
        with capture_logs() as logs:
            await start(book, replace(given, show_notices=shown))
        assert [line["field"] for line in logs] == (["spec.f"] if shown else [])


async def test_the_demo_is_applied_where_nothing_is(tmp_path: Path) -> None:
    """Afterwards only its Backend, whose port may be another one, and only while that is there."""
    demo = replace(settings(tmp_path), demo=True)
    empty, used, emptied = Book(), Book(("Backend", "b"), ("Model", "m")), Book(("Model", "m"))
    for book in (empty, used, emptied):
        await start(book, demo)
    assert [names for names, _, _ in empty.applied] == [["Backend/b", "Model/m"]]
    assert [names for names, _, _ in used.applied] == [["Backend/b"]]
    assert emptied.applied == []


async def test_without_a_file_nothing_is_applied(tmp_path: Path) -> None:
    """What is stored is in force as it is."""
    book = Book()
    await start(book, replace(settings(tmp_path), files=()))
    assert book.applied == []


async def test_a_bad_file_is_refused_with_its_place(tmp_path: Path) -> None:
    """File and line, as offline."""
    with pytest.raises(InvalidDocumentsError) as refused:
        await start(Book(), settings(tmp_path, DOCUMENTS.replace("backend: b", "backend: nowhere")))
    assert "policy.yaml:8" in refused.value.problems[0].place


def stored(*values: dict[str, Any]) -> dict[tuple[str, str], StoredDocument]:
    """Return documents as they are kept."""
    at = datetime(2026, 1, 1, tzinfo=UTC)
    return {
        (value["kind"], value["metadata"]["name"]): StoredDocument(
            value["kind"], value["metadata"]["name"], 1, json.dumps(value).encode(), at
        )
        for value in values
    }


async def test_what_a_demo_has_left_makes_room_for_files(tmp_path: Path) -> None:
    """Only what is as the demo wrote it, and is not named by the files."""
    demo = demo_documents("http://127.0.0.1:5/v1")
    mine = {**demo[1], "spec": {"versions": [{"name": "other", "backend": "simulated"}]}}
    book = Book()
    book.head = replace(book.head, stored=stored(*demo[:1], mine, *demo[2:]))
    text = DOCUMENTS + "---\nkind: Tier\nmetadata: {name: gold}\nspec: {}\n"
    await start(book, settings(tmp_path, text))
    left = {(value["kind"], value["metadata"]["name"]) for value in demo}
    assert book.without == left - {("Model", mine["metadata"]["name"]), ("Tier", "gold")}


async def test_what_is_mirrored_is_left_to_its_owner(tmp_path: Path) -> None:
    """With a warning, whatever else is in the file; no demo takes it away either."""
    demo = demo_documents("http://127.0.0.1:5/v1")
    backend = {"kind": "Backend", "metadata": {"name": "b"}, "spec": {}}
    found = stored(*demo, backend)
    book = Book()
    book.head = replace(
        book.head, stored={key: replace(item, owner="kubernetes") for key, item in found.items()}
    )
    with capture_logs() as logs:
        await start(book, settings(tmp_path, DOCUMENTS))
    assert [(names, len(book.without)) for names, _, _ in book.applied] == [(["Model/m"], 0)]
    assert [(entry["document"], entry["owner"]) for entry in logs] == [("Backend/b", "kubernetes")]


TWICE = Problem("Backend/b", "spec.default", "is true in Backend/other too; mark one Backend only")


async def test_files_that_contradict_what_is_stored_are_left_out(tmp_path: Path) -> None:
    """One warning that names both documents, and what the files would have changed, with its place."""
    backend = {"kind": "Backend", "metadata": {"name": "b"}, "spec": {"url": "http://127.0.0.1:1/v1"}}
    book = Book()
    book.head = replace(book.head, stored=stored(backend))
    book.refusing = (TWICE,)
    with capture_logs() as logs:
        told = await start(book, settings(tmp_path))
    assert [(line["log_level"], line["why"]) for line in logs] == [("warning", [TWICE.sentence()])]
    assert f"Model/m ({tmp_path}/policy.yaml:6)" in told
    assert "would change Backend/b" not in told, "it is as it is stored"
    for name in ("Backend/b: ", "Backend/other", "accepted last stays in force", "correct the files"):
        assert name in told


async def test_without_a_policy_to_go_on_with_a_contradiction_ends_the_start(tmp_path: Path) -> None:
    """As nothing could be in force."""
    book = Book()
    book.refusing = (TWICE,)
    with pytest.raises(InvalidDocumentsError):
        await start(book, settings(tmp_path))


@pytest.mark.parametrize("text", [DOCUMENTS.replace("url:", "urll:"), f"{DOCUMENTS}---{DOCUMENTS}"])
async def test_a_file_that_is_wrong_by_itself_ends_the_start_whatever_is_stored(
    tmp_path: Path, text: str
) -> None:
    """With its place, and not with what else was found."""
    book = Book(("Backend", "other"))
    book.refusing = (TWICE,)
    with pytest.raises(InvalidDocumentsError) as refused:
        await start(book, settings(tmp_path, text))
    assert "policy.yaml" in refused.value.problems[0].place
